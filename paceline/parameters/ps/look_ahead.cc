#include "paceline/parameters/ps/look_ahead.h"

#include <cmath>
#include <cstddef>

#include "paceline/base/check.h"
#include "paceline/base/vectorized.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

namespace {

PACELINE_VECTORIZED void step_along(const float* __restrict weights, const float* __restrict direction,
                                    float reach, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = weights[i] - reach * direction[i];
}

PACELINE_VECTORIZED void step_narrow_along(const float* __restrict weights, const float* __restrict direction,
                                           float reach, Bfloat16* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = narrowed(weights[i] - reach * direction[i]);
}

}  // namespace

bool has_direction(OptimizerKind kind) { return traits_of(kind).direction_kept != nullptr; }

double look_ahead_reach(const OptimizerConfig& config, double learning_rate, double staleness,
                        double fraction) {
  const OptimizerTraits& traits = traits_of(config.kind);
  const double kept = traits.direction_kept == nullptr ? 0 : traits.direction_kept(config);
  if (kept == 0 || staleness == 0 || fraction == 0) return 0;
  // The geometric sum with q = kept^f: q·(1 − q^τ)/(1 − q). Small differences of powers near 1, so by expm1.
  const double log_q = fraction * std::log(kept);
  const double sum =
      log_q == 0 ? staleness : std::exp(log_q) * std::expm1(staleness * log_q) / std::expm1(log_q);
  const double later = traits.direction_late ? std::exp(log_q) : 1;
  return learning_rate * config.rate * fraction * sum * later;
}

double direction_scale(const OptimizerConfig& optimizer, const OptimizerConfig& own) {
  const double whole = look_ahead_reach(optimizer, 1, 1, 1);
  return whole == 0 ? 1 : look_ahead_reach(own, 1, 1, 1) / whole;
}

void look_ahead(std::span<const float> weights, std::span<const float> direction, float reach,
                std::span<float> out) {
  PACELINE_CHECK(weights.size() == out.size() && direction.size() == out.size(),
                 "{} weights and {} of direction into {}", weights.size(), direction.size(), out.size());
  step_along(weights.data(), direction.data(), reach, out.data(), out.size());
}

void look_ahead(std::span<const float> weights, std::span<const float> direction, float reach,
                std::span<Bfloat16> out) {
  PACELINE_CHECK(weights.size() == out.size() && direction.size() == out.size(),
                 "{} weights and {} of direction into {}", weights.size(), direction.size(), out.size());
  step_narrow_along(weights.data(), direction.data(), reach, out.data(), out.size());
}

void look_ahead(std::span<const Layout::Range> ranges, std::span<const float> weights,
                std::span<const float> direction, float reach, std::span<float> out) {
  for (const Layout::Range& range : ranges) {
    const auto begin = static_cast<std::size_t>(range.begin);
    const auto size = static_cast<std::size_t>(range.end - range.begin);
    look_ahead(weights.subspan(begin, size), direction.subspan(begin, size), reach, out.subspan(begin, size));
  }
}

}  // namespace paceline::ps

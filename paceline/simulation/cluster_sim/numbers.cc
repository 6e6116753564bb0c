#include "paceline/simulation/cluster_sim/numbers.h"

#include <array>
#include <cmath>

#include "paceline/base/rng.h"
#include "paceline/base/text_hash.h"

namespace paceline::cluster_sim {

namespace {

constexpr int kTensors = 8;
constexpr std::int64_t kTensorFloats = ps::Layout::kAlignment;  // no padding
constexpr std::size_t kFloats = kTensors * kTensorFloats;

// The rounding of some hundred updates in floats, beside which the least commit is large.
constexpr double kRounding = 2e-5;

std::array<float, kFloats> make_scales() {
  std::array<float, kFloats> scales{};
  for (std::size_t i = 0; i < kFloats; ++i) scales[i] = 1 + static_cast<float>(i) / kFloats;
  return scales;
}
const std::array<float, kFloats>& scales() {
  static const std::array<float, kFloats> all = make_scales();
  return all;
}

// The size of a gradient, from 1 to 2.
double size_of(const std::string& attempt, std::int32_t replica, std::int64_t clock) {
  return 1 + Rng(mix_seed({text_hash(attempt), static_cast<std::uint64_t>(replica),
                           static_cast<std::uint64_t>(clock)}))
                 .uniform();
}

void write(double value, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(value) * scales()[i];
}

bool is_scaled(double value, std::int64_t offset, std::span<const float> found) {
  const auto begin = static_cast<std::size_t>(offset);
  if (begin + found.size() > kFloats) return false;
  const auto most = static_cast<float>(kRounding * (1 + std::abs(value)));
  for (std::size_t i = 0; i < found.size(); ++i) {
    // a number that is not finite is not within it
    if (!(std::abs(found[i] - static_cast<float>(value) * scales()[begin + i]) <= most)) return false;
  }
  return true;
}

}  // namespace

const ps::Layout& model() {
  static const ps::Layout all = [] {
    ps::Layout layout;
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
      layout.add(name, ps::TensorKind::kParameter, {kTensorFloats});
    return layout;
  }();
  return all;
}

// The rule of SGD in ps/update_rule.h.
Content after_commit(Content before, const std::string& attempt, const wire::Apply& commit, double momentum) {
  double sum = 0;
  for (const wire::Apply::Member& member : commit.members())
    sum += member.weight() * size_of(attempt, member.replica(), member.clock());
  if (commit.of_differences()) return {before.weight - sum, sum};
  const double kept = std::pow(momentum, commit.fraction());
  const double velocity = kept * before.velocity + (1 - kept) / (1 - momentum) * sum;
  return {before.weight - commit.learning_rate() * commit.fraction() * velocity, velocity};
}

void write_first(std::span<float> weights) { write(Content{}.weight, weights); }

void write_gradient(const std::string& attempt, std::int32_t replica, std::int64_t clock,
                    std::span<float> gradient) {
  write(size_of(attempt, replica, clock), gradient);
}

bool has_weights(Content content, std::int64_t offset, std::span<const float> weights) {
  return is_scaled(content.weight, offset, weights);
}

bool has_velocity(Content content, std::int64_t offset, std::span<const float> velocity) {
  return is_scaled(content.velocity, offset, velocity);
}

}  // namespace paceline::cluster_sim

#include "paceline/formats/config/pace.h"

#include <algorithm>
#include <cmath>

#include "paceline/base/rng.h"

namespace paceline::config {

Unevenness read_unevenness(Section& section) {
  Unevenness unevenness;
  unevenness.jitter = section.number("jitter", 0, 0, 10);
  unevenness.slow_chance = section.number("slow_chance", 0, 0, 1);
  if (!section.has("slow_factor")) return unevenness;
  const std::vector<double> ends = section.numbers("slow_factor", 1, 1e4);
  if (ends.size() == 2 && ends[0] <= ends[1]) {
    unevenness.slow_least = ends[0];
    unevenness.slow_most = ends[1];
  } else {
    section.complain("slow_factor", "write the least and the most, for example [2.0, 5.0]");
  }
  return unevenness;
}

double unevenness_factor(const Unevenness& unevenness, std::uint64_t seed, std::int64_t device, Clock clock) {
  double factor = 1;
  if (unevenness.jitter <= 0 && unevenness.slow_chance <= 0) return factor;
  Rng rng(mix_seed({seed, static_cast<std::uint64_t>(device), static_cast<std::uint64_t>(clock.value())}));
  if (unevenness.jitter > 0) {
    const double variance = std::log1p(unevenness.jitter * unevenness.jitter);
    factor = std::exp(std::sqrt(variance) * rng.normal() - variance / 2);
  }
  if (rng.uniform() < unevenness.slow_chance)
    factor *= unevenness.slow_least + (unevenness.slow_most - unevenness.slow_least) * rng.uniform();
  return factor;
}

double unevenness_factor(const Unevenness& unevenness, std::uint64_t seed, std::int64_t device, Clock clock,
                         std::int64_t steps) {
  if (unevenness.jitter <= 0 && unevenness.slow_chance <= 0) return 1;
  steps = std::max<std::int64_t>(1, steps);
  double sum = 0;
  for (std::int64_t step = 1; step <= steps; ++step)
    sum += unevenness_factor(unevenness, seed, device, Clock((clock.value() - 1) * steps + step));
  return sum / static_cast<double>(steps);
}

double slowdown_factor(std::span<const Slowdown> slowdowns, std::int64_t device, Time start) {
  double factor = 1;
  const double start_s = to_seconds(start);
  for (const Slowdown& one : slowdowns) {
    if (one.device == device && start_s >= one.at_s && start_s < one.until_s) factor *= one.factor;
  }
  return factor;
}

}  // namespace paceline::config

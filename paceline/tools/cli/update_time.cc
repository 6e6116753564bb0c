#include "paceline/tools/cli/update_time.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "paceline/parameters/ps/fused_update.h"

namespace paceline::cli {

namespace {

constexpr std::int64_t kMostFloats = 8'000'000;  // a larger update takes as much longer
constexpr std::size_t kTimes = 7;

}  // namespace

double measured_update_ms(const ps::OptimizerConfig& optimizer, std::int64_t floats) {
  if (floats <= 0 || ps::is_tensorwise(optimizer.kind)) return 0;
  const std::int64_t part = std::min(floats, kMostFloats);
  const auto made = [&](float value) { return std::vector<float>(static_cast<std::size_t>(part), value); };
  const std::vector<float> gradient = made(1e-6f);
  std::vector<float> weights = made(1), next = made(1), first = made(0), second = made(0);
  const ps::StepNumbers numbers = ps::step_numbers(optimizer, 1e-4, 1, 1);
  const ps::Weighted member{gradient.data(), 1.0f};
  std::vector<double> times;
  for (std::size_t i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!ps::all_finite(gradient.data(), part)) break;
    ps::fused_update(optimizer.kind, numbers, {&member, 1},
                     {weights.data(), next.data(), first.data(), second.data()}, 0, part);
    std::swap(weights, next);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  if (times.empty()) return 0;
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return times[kTimes / 2] * static_cast<double>(floats) / static_cast<double>(part);
}

}  // namespace paceline::cli

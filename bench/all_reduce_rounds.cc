#include "bench/all_reduce_rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/vectorized.h"

namespace paceline::bench {

namespace {

constexpr float kFirst = 1e-6f;

PACELINE_VECTORIZED void sgd_step(const float* gradient, float share, float rate, float momentum,
                                  float* velocity, float* weights, std::int64_t floats) {
  for (std::int64_t i = 0; i < floats; ++i) {
    velocity[i] = momentum * velocity[i] + share * gradient[i];
    weights[i] -= rate * velocity[i];
  }
}

}  // namespace

void all_reduce_rounds(int ranks, std::int64_t floats, int rounds,
                       const std::function<void(std::span<float>)>& sum,
                       const std::function<void(double ms)>& round) {
  const auto size = static_cast<std::size_t>(floats);
  std::vector<float> gradient(size, kFirst);
  std::vector<float> velocity(size, 0.0f);
  std::vector<float> weights(size, 1.0f);
  const auto share = 1 / static_cast<float>(ranks);
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    sum(gradient);
    if (i == 0) {
      const float expected = static_cast<float>(ranks) * kFirst;
      PACELINE_CHECK(std::all_of(gradient.begin(), gradient.end(),
                                 [&](float one) { return std::abs(one - expected) < 1e-3f * expected; }),
                     "a wrong sum");
    }
    sgd_step(gradient.data(), share, 0.1f, 0.9f, velocity.data(), weights.data(), floats);
    round(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
}

}  // namespace paceline::bench

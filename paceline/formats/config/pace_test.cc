#include "paceline/formats/config/pace.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

constexpr int kDraws = 100'000;

TEST(Unevenness, WithoutAnyEveryIterationIsAlike) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(unevenness_factor({}, 1, 0, Clock(i)), 1.0);
}

TEST(Unevenness, JitterHasMeanOneAndTheDeviationAskedFor) {
  for (const double jitter : {0.05, 0.3, 1.0}) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double factor = unevenness_factor({.jitter = jitter}, 7, 3, Clock(i));
      EXPECT_GT(factor, 0);
      sum += factor;
      squares += factor * factor;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 1, 0.02 * (1 + jitter));
    EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), jitter, 0.08 * jitter);
  }
}

TEST(Unevenness, SomeIterationsAreSlowAndNoneBeyondTheLimits) {
  const Unevenness unevenness{.slow_chance = 0.1, .slow_least = 2, .slow_most = 5};
  int slow = 0;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double factor = unevenness_factor(unevenness, 7, 3, Clock(i));
    if (factor == 1) continue;
    ++slow;
    sum += factor;
    EXPECT_GE(factor, 2);
    EXPECT_LE(factor, 5);
  }
  EXPECT_NEAR(slow, 0.1 * kDraws, 0.005 * kDraws);
  EXPECT_NEAR(sum / slow, 3.5, 0.05);
}

TEST(Unevenness, IsAFunctionOfSeedReplicaAndIteration) {
  const Unevenness unevenness{.jitter = 0.2};
  const double factor = unevenness_factor(unevenness, 1, 2, Clock(3));
  EXPECT_EQ(unevenness_factor(unevenness, 1, 2, Clock(3)), factor);
  EXPECT_NE(unevenness_factor(unevenness, 2, 2, Clock(3)), factor);
  EXPECT_NE(unevenness_factor(unevenness, 1, 3, Clock(3)), factor);
  EXPECT_NE(unevenness_factor(unevenness, 1, 2, Clock(4)), factor);
}

// A slow step is as likely as under a policy that releases each step, and does not slow the others.
TEST(Unevenness, OfStepsThatAReplicaTakesByItselfIsTheMeanOfTheirs) {
  const Unevenness unevenness{.jitter = 0.2, .slow_chance = 0.1};
  for (const std::int64_t steps : {1, 2, 8}) {
    int step = 0;
    for (int clock = 1; clock <= 20; ++clock) {
      double sum = 0;
      for (std::int64_t i = 0; i < steps; ++i) sum += unevenness_factor(unevenness, 7, 3, Clock(++step));
      EXPECT_DOUBLE_EQ(unevenness_factor(unevenness, 7, 3, Clock(clock), steps),
                       sum / static_cast<double>(steps));
    }
  }
  EXPECT_EQ(unevenness_factor(unevenness, 7, 3, Clock(5), 0), unevenness_factor(unevenness, 7, 3, Clock(5)));
}

TEST(Slowdowns, CountFromTheirStartToBeforeTheirEndAndMultiply) {
  const std::vector<Slowdown> slowdowns = {{.device = 1, .at_s = 10, .until_s = 20, .factor = 3},
                                           {.device = 1, .at_s = 15, .until_s = 30, .factor = 2}};
  const auto factor = [&](std::int64_t device, double at_s) {
    return slowdown_factor(slowdowns, device, Time{} + from_seconds(at_s));
  };
  EXPECT_EQ(factor(1, 9.9), 1);
  EXPECT_EQ(factor(1, 10), 3);
  EXPECT_EQ(factor(1, 15), 6);
  EXPECT_EQ(factor(1, 20), 2);
  EXPECT_EQ(factor(1, 30), 1);
  EXPECT_EQ(factor(0, 15), 1);
}

}  // namespace
}  // namespace paceline::config

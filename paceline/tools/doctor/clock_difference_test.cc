#include "paceline/tools/doctor/clock_difference.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::doctor {
namespace {

TEST(ClockDifference, TheQuickestRoundSaysMost) {
  // The other clock is 5 s ahead; the second round is the quickest and even.
  const std::vector<ClockRound> rounds = {{0, 5'000'900'000, 1'000'000},
                                          {2'000'000, 5'002'050'000, 2'100'000},
                                          {3'000'000, 5'003'000'000, 3'500'000}};
  const ClockFacts facts = clock_difference(rounds);
  EXPECT_NEAR(facts.ahead_s, 5, 1e-9);
  EXPECT_NEAR(facts.uncertainty_s, 50e-6, 1e-12);
}

// This holds however the two ways share a round's time.
TEST(ClockDifference, TheTruthIsWithinTheUncertainty) {
  Rng rng(7);
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t ahead_ns = static_cast<std::int64_t>(rng.below(2'000'000'000)) - 1'000'000'000;
    std::vector<ClockRound> rounds;
    for (std::int64_t round = 0; round <= static_cast<std::int64_t>(rng.below(5)); ++round) {
      const auto there = static_cast<std::int64_t>(rng.below(1'000'000));
      const auto back = static_cast<std::int64_t>(rng.below(1'000'000));
      const std::int64_t asked = round * 10'000'000;
      rounds.push_back({asked, asked + there + ahead_ns, asked + there + back});
    }
    const ClockFacts facts = clock_difference(rounds);
    ASSERT_LE(std::abs(facts.ahead_s - static_cast<double>(ahead_ns) / 1e9), facts.uncertainty_s + 1e-12);
  }
}

}  // namespace
}  // namespace paceline::doctor

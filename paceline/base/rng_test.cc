// The random numbers are part of what a seed promises: the same bytes on every machine, for ever. The
// expected values come from an implementation in another language.
#include "paceline/base/rng.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::vector<std::uint64_t> first_outputs(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::uint64_t> outputs(4);
  for (std::uint64_t& output : outputs) output = rng.next();
  return outputs;
}

TEST(Rng, FirstOutputsAreThoseOfSplitMix64) {
  EXPECT_THAT(first_outputs(0), ElementsAre(0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu,
                                            0xf88bb8a8724c81ecu));
  EXPECT_THAT(first_outputs(1), ElementsAre(0x910a2dec89025cc1u, 0xbeeb8da1658eec67u, 0xf893a2eefb32555eu,
                                            0x71c18690ee42c90bu));
}

TEST(Rng, BelowGivesKnownNumbers) {
  Rng rng(5);
  std::vector<std::uint64_t> dice(10);
  for (std::uint64_t& die : dice) die = rng.below(6);
  EXPECT_THAT(dice, ElementsAre(2, 4, 1, 0, 1, 2, 5, 3, 2, 3));
}

TEST(Rng, BelowRejectsWhatWouldBeBiased) {
  // With this bound almost half of all draws must be thrown away.
  constexpr std::uint64_t kBound = 0x8000000000000001u;
  Rng rng(3);
  EXPECT_EQ(rng.below(kBound), 0x0e858a726d80c7f6u);
  EXPECT_EQ(rng.below(kBound), 0x0953b27db355e4e7u);
  EXPECT_EQ(rng.below(kBound), 0x71c18690ee42c90bu);
}

TEST(Rng, BelowStaysInBoundsAndHitsEveryNumberAlike) {
  Rng rng(11);
  for (std::uint64_t bound : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, std::uint64_t{100}}) {
    std::vector<int> hits(bound);
    const int draws = 2000 * static_cast<int>(bound);
    for (int i = 0; i < draws; ++i) {
      const std::uint64_t drawn = rng.below(bound);
      ASSERT_LT(drawn, bound);
      ++hits[drawn];
    }
    // Binomial with mean 2000: five standard deviations.
    for (int count : hits) EXPECT_NEAR(count, 2000, 225) << "bound " << bound;
  }
}

TEST(Rng, UniformIsInTheUnitIntervalWithItsMoments) {
  Rng rng(12);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 1e5, 0.5, 0.005);
  EXPECT_NEAR(squares / 1e5, 1.0 / 3, 0.005);
}

TEST(Rng, NormalHasItsMoments) {
  Rng rng(13);
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / 1e5, 0.0, 0.02);
  EXPECT_NEAR(squares / 1e5, 1.0, 0.02);
  EXPECT_NEAR(fourths / 1e5, 3.0, 0.2);
}

TEST(MixSeed, DependsOnEveryPartAndOnTheirOrder) {
  EXPECT_EQ(mix_seed({1, 2, 3}), 0xd0734750fde362b3u);
  EXPECT_EQ(mix_seed({3, 2, 1}), 0xd62a7f6e291fef64u);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    for (std::uint64_t sample = 0; sample < 50; ++sample) seeds.push_back(mix_seed({7, epoch, sample}));
  }
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
}

TEST(Permutation, IsAKnownOne) { EXPECT_THAT(permutation(7, 8), ElementsAre(7, 4, 6, 1, 2, 5, 0, 3)); }

TEST(Permutation, HoldsEachNumberOnceAndDependsOnTheSeedOnly) {
  EXPECT_NE(permutation(42, 1000), permutation(43, 1000));
  for (std::int32_t n : {0, 1, 2, 3, 10, 1000}) {
    std::vector<std::int32_t> order = permutation(42, n);
    EXPECT_EQ(order, permutation(42, n));
    std::sort(order.begin(), order.end());
    std::vector<std::int32_t> identity(static_cast<std::size_t>(n));
    std::iota(identity.begin(), identity.end(), 0);
    EXPECT_EQ(order, identity);
  }
}

TEST(Permutation, EveryPlaceIsEquallyLikely) {
  std::array<std::array<int, 4>, 4> hits{};
  for (std::uint64_t seed = 0; seed < 8000; ++seed) {
    const std::vector<std::int32_t> order = permutation(seed, 4);
    for (std::size_t place = 0; place < 4; ++place) ++hits[place][static_cast<std::size_t>(order[place])];
  }
  for (const auto& place : hits) {
    for (int count : place) EXPECT_NEAR(count, 2000, 200);
  }
}

}  // namespace
}  // namespace paceline

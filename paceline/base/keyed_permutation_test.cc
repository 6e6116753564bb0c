#include "paceline/base/keyed_permutation.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

std::vector<std::int64_t> all_of(std::uint64_t seed, std::int64_t n) {
  const KeyedPermutation permutation(seed, n);
  std::vector<std::int64_t> all;
  for (std::int64_t place = 0; place < n; ++place) all.push_back(permutation(place));
  return all;
}

TEST(KeyedPermutation, HasEachNumberOnce) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 4097, 100'000}) {
    std::vector<std::int64_t> sorted(static_cast<std::size_t>(n));
    std::iota(sorted.begin(), sorted.end(), 0);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<std::int64_t> all = all_of(seed, n);
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, sorted) << n;
    }
  }
}

TEST(KeyedPermutation, IsAnotherOneForEachSeed) {
  const auto first = all_of(1, 1000);
  EXPECT_EQ(first, all_of(1, 1000));
  const auto second = all_of(2, 1000);
  int alike = 0;
  for (std::size_t i = 0; i < first.size(); ++i) alike += first[i] == second[i] ? 1 : 0;
  EXPECT_LT(alike, 10) << "one is expected";
}

// Places and pairs of successive values are spread evenly. Chi-square of 99 degrees of freedom: mean 99,
// deviation 14.
TEST(KeyedPermutation, IsEvenlySpread) {
  constexpr std::int64_t kN = 100'000;
  constexpr int kBins = 10;
  const auto bin = [](std::int64_t value) { return static_cast<std::size_t>(value * kBins / kN); };
  const auto chi_square = [](const std::array<double, kBins * kBins>& counts) {
    constexpr double kExpected = static_cast<double>(kN) / (kBins * kBins);
    double sum = 0;
    for (const double count : counts) sum += (count - kExpected) * (count - kExpected) / kExpected;
    return sum;
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto all = all_of(seed, kN);
    std::array<double, kBins * kBins> places{};
    std::array<double, kBins * kBins> pairs{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      ++places[bin(static_cast<std::int64_t>(i)) * kBins + bin(all[i])];
      ++pairs[bin(all[i]) * kBins + bin(all[(i + 1) % all.size()])];
    }
    EXPECT_LT(chi_square(places), 99 + 6 * 14) << seed;
    EXPECT_LT(chi_square(pairs), 99 + 6 * 14) << seed;
  }
}

TEST(KeyedPermutation, TakesTheLargestSets) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 62) - 3;
  const KeyedPermutation permutation(7, kMost);
  for (std::int64_t place = 0; place < 100; ++place) {
    EXPECT_GE(permutation(place), 0);
    EXPECT_LT(permutation(place), kMost);
    EXPECT_NE(permutation(place), permutation(kMost - 1 - place));
  }
}

}  // namespace
}  // namespace paceline

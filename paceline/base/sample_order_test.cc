// Which samples a lease means: each of the data set once an epoch, in an order that the seed alone decides.
#include "paceline/base/sample_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

std::vector<std::int32_t> samples_of(SampleOrder& order, const Lease& lease) {
  const auto samples = order.samples(lease);
  return {samples.begin(), samples.end()};
}

TEST(SampleOrder, TheLeasesOfAnEpochAreEverySampleOnce) {
  SampleOrder order(7, 100);
  std::vector<std::int32_t> all;
  for (std::int64_t begin = 0; begin < 100; begin += 30) {
    for (const std::int32_t sample : order.samples({3, begin, std::min<std::int64_t>(begin + 30, 100)})) {
      all.push_back(sample);
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<std::int32_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(SampleOrder, ADataSetWithAnOrderOfItsOwnIsNotPermuted) {
  SampleOrder order(7, 100, true);
  EXPECT_THAT(samples_of(order, {3, 30, 33}), ::testing::ElementsAre(30, 31, 32));
  EXPECT_THAT(samples_of(order, {0, 98, 100}), ::testing::ElementsAre(98, 99));
  EXPECT_THAT(samples_of(order, {0, 98, 101}), IsEmpty());
  EXPECT_EQ(order.augment_seed({3, 30, 33}), SampleOrder(7, 100).augment_seed({3, 0, 1}));
}

// The larger set is not listed.
TEST(SampleOrder, DependsOnTheSeedAndTheLeaseAndOnNothingElse) {
  for (const std::int32_t size : {1000, SampleOrder::kMostListed + 5}) {
    SampleOrder straight(7, size);
    SampleOrder back_and_forth(7, size);
    const std::vector<std::int32_t> first = samples_of(straight, {0, 10, 20});
    const std::vector<std::int32_t> later = samples_of(straight, {1, 10, 20});
    EXPECT_EQ(samples_of(back_and_forth, {1, 10, 20}), later);
    EXPECT_EQ(samples_of(back_and_forth, {0, 10, 20}), first);
    EXPECT_NE(first, later) << "every epoch in another order";
    SampleOrder other(8, size);
    EXPECT_NE(samples_of(other, {0, 10, 20}), first);
    EXPECT_THAT(samples_of(straight, {0, 12, 14}), ElementsAreArray(first.begin() + 2, first.begin() + 4))
        << "a part of a lease means the same samples";
  }
}

TEST(SampleOrder, GivesEachSampleOfALargeSetOnce) {
  constexpr std::int32_t kSize = std::numeric_limits<std::int32_t>::max();
  SampleOrder order(7, kSize);
  std::set<std::int32_t> all;
  for (std::int64_t begin : {std::int64_t{0}, std::int64_t{1'000'000'000}, std::int64_t{kSize} - 10'000}) {
    for (const std::int32_t sample : order.samples({3, begin, begin + 10'000})) {
      EXPECT_TRUE(sample >= 0 && sample < kSize);
      all.insert(sample);
    }
  }
  EXPECT_EQ(all.size(), 30'000u);
}

TEST(SampleOrder, ALeaseThatIsNotOfThisDataSetMeansNothing) {
  SampleOrder order(7, 100);
  for (const Lease& lease :
       {Lease{-1, 0, 1}, Lease{0, -1, 1}, Lease{0, 0, 101}, Lease{0, 5, 5}, Lease{0, 6, 5}}) {
    EXPECT_THAT(order.samples(lease), IsEmpty());
  }
  EXPECT_EQ(order.samples({0, 99, 100}).size(), 1u);
}

TEST(SampleOrder, SeedsAreOneForEachUseEpochAndStep) {
  const SampleOrder order(7, 100);
  std::set<std::uint64_t> seeds;
  for (std::int32_t epoch = 0; epoch < 10; ++epoch) {
    seeds.insert(order.augment_seed({epoch, 0, 5}));
    EXPECT_EQ(order.augment_seed({epoch, 0, 5}), order.augment_seed({epoch, 50, 60}))
        << "the same all epoch long";
    for (std::int64_t begin = 0; begin < 100; begin += 10) {
      seeds.insert(order.step_seed({epoch, begin, begin + 10}));
      EXPECT_EQ(order.step_seed({epoch, begin, begin + 10}), order.step_seed({epoch, begin, begin + 1}));
    }
  }
  EXPECT_EQ(seeds.size(), 110u);
  EXPECT_NE(SampleOrder(8, 100).step_seed({0, 0, 1}), order.step_seed({0, 0, 1}));
}

}  // namespace
}  // namespace paceline

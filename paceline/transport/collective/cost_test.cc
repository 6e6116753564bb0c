// Bytes and times of schedules against closed forms.
#include "paceline/transport/collective/cost.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

using std::chrono::microseconds;

constexpr std::int64_t kCostElements = 16 * 840;  // every rank up to 8 has the same slice

Plan plan_of(Algorithm algorithm, Phases phases, int ranks) {
  return {algorithm, phases, ranks, kCostElements, kCostElements};
}

TEST(Traffic, EachPhaseMovesAllButOneSlice) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSharedMemory}) {
    for (const Phases phases : {Phases::kReduceScatter, Phases::kAllGather}) {
      for (int ranks = 1; ranks <= 8; ++ranks) {
        const std::int64_t bytes = 4 * kCostElements * (ranks - 1) / ranks;
        for (const Traffic& one : traffic(plan_of(algorithm, phases, ranks)))
          EXPECT_EQ(one, (Traffic{bytes, bytes})) << ranks << " ranks";
      }
    }
  }
}

TEST(Traffic, IsTheSumOfBothPhases) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSharedMemory})
    EXPECT_EQ(traffic(plan_of(algorithm, Phases::kAllReduce, 4))[2],
              (Traffic{4 * kCostElements * 3 / 2, 4 * kCostElements * 3 / 2}));
}

// A byte takes a nanosecond.
std::vector<LinkRate> links(int ranks, Duration latency) {
  return std::vector<LinkRate>(static_cast<std::size_t>(ranks), LinkRate{1e9, latency});
}

// Every transfer's time is rounded to a nanosecond.
void expect_about(Duration got, Duration want) {
  EXPECT_NEAR(static_cast<double>(got.count()), static_cast<double>(want.count()), 50);
}

TEST(Time, IsOneRoundLessThanRanksForARingInWholeSlices) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const Plan plan = plan_of(Algorithm::kRing, Phases::kReduceScatter, ranks);
    const Duration round = microseconds(5) + std::chrono::nanoseconds(4 * kCostElements / ranks);
    expect_about(time_of(plan, links(ranks, microseconds(5))), (ranks - 1) * round);
  }
}

TEST(Time, ChunksHideLatencyBehindTransfers) {
  Plan plan = plan_of(Algorithm::kRing, Phases::kReduceScatter, 4);
  plan.chunk = 16 * 21;  // ten of a slice
  const auto slice_time = std::chrono::nanoseconds(kCostElements);
  expect_about(time_of(plan, links(4, microseconds(5))), microseconds(5) + 3 * slice_time);
}

TEST(Time, TheSlowestLinkSetsTheRingsPace) {
  const Plan plan = plan_of(Algorithm::kRing, Phases::kAllReduce, 4);
  std::vector<LinkRate> all = links(4, Duration::zero());
  const Duration even = time_of(plan, all);
  all[2].bytes_per_second = 1e8;
  EXPECT_GT(time_of(plan, all), 9 * even);
  EXPECT_LE(time_of(plan, all), 10 * even);
}

TEST(Time, TwoReadersOfOneLinkTakeTurns) {
  // There are so few elements that the last rank owns them all.
  const Plan plan{Algorithm::kSharedMemory, Phases::kAllGather, 3, 16, 16};
  expect_about(time_of(plan, std::vector<LinkRate>(3, LinkRate{1e6})), 2 * microseconds(64));
}

TEST(Time, IsZeroForOneRank) {
  EXPECT_EQ(time_of(plan_of(Algorithm::kRing, Phases::kAllReduce, 1), links(1, microseconds(5))),
            Duration::zero());
}

}  // namespace
}  // namespace paceline::collective

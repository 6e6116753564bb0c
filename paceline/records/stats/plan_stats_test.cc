#include "paceline/records/stats/plan_stats.h"

#include <gtest/gtest.h>

#include "paceline/records/stats/testing/moments.h"

namespace paceline::report {
namespace {

using report::testing::at;

const planner::Plan kPair{{{{0, 1}, {3}, 16}}, 4};
const planner::Plan kAlone{{{{0}, {}, 10}, {{1}, {}, 6}}, 4};

control::BatchDone batch(double seconds, double predicted_ms, double measured_ms, bool regular = true) {
  return {at(seconds),
          predicted_ms,
          measured_ms,
          regular,
          {{0, 16, from_seconds(0.06)}, {1, 16, from_seconds(0.03)}}};
}

TEST(PlanStats, SaysNothingOfARunWithoutAPlan) {
  PlanStats stats(2);
  stats.add(batch(1, 100, 100));
  EXPECT_FALSE(stats.summary());
  EXPECT_TRUE(stats.history().plans.empty());
  EXPECT_TRUE(stats.history().batches.empty());
}

TEST(PlanStats, ComparesWhatWasPredictedWithWhatWasMeasured) {
  PlanStats stats(2);
  EXPECT_FALSE(stats.adopt({at(0), kPair, 95, "the first"}));
  stats.add(batch(0.1, 95, 100));
  stats.add(batch(0.3, 105, 210, false));  // this batch contains a change of plan
  stats.add(batch(0.4, 110, 100));
  const auto summary = stats.summary();
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->batches.count, 2);
  EXPECT_DOUBLE_EQ(*summary->batches.measured_mean_ms(), 100);
  EXPECT_DOUBLE_EQ(*summary->batches.predicted_mean_ms(), 102.5);
  EXPECT_DOUBLE_EQ(*summary->error, 0.075);
  EXPECT_DOUBLE_EQ(summary->late_predicted_ms, 102.5);
}

TEST(PlanStats, SumsWhatWasSpent) {
  PlanStats stats(2);
  stats.adopt({at(0), kPair, 95, "the first"});
  control::BatchDone dear = batch(0.1, 95, 100), cheap = batch(0.2, 95, 100);
  EXPECT_FALSE(stats.summary()->spending);
  dear.spending = control::Spending{3, 1, 2};
  cheap.spending = control::Spending{0.5, 1, 1.5};
  stats.add(dear);
  stats.add(cheap);
  const auto summary = stats.summary();
  EXPECT_DOUBLE_EQ(summary->spending->cost, 3.5);
  EXPECT_DOUBLE_EQ(summary->spending->allowed, 2);
  EXPECT_DOUBLE_EQ(summary->spending->queue, 1.5);
  EXPECT_DOUBLE_EQ(summary->queue_max, 2);
}

TEST(PlanStats, CountsOtherStagesAsAReplanAndOtherSamplesNot) {
  PlanStats stats(2);
  stats.adopt({at(0), kPair, 95, "the first"});
  planner::Plan more = kPair;
  more.replicas[0].samples = 20;
  EXPECT_FALSE(stats.adopt({at(1), more, 95, "resumed"}));
  EXPECT_TRUE(stats.adopt({at(2), kAlone, 80, "better"}));
  stats.add(batch(2.1, 80, 90));
  EXPECT_EQ(stats.summary()->re_plans, 1);
  EXPECT_EQ(stats.summary()->plan, kAlone);
  const auto plans = stats.history().plans;
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[2].why, "better");
  EXPECT_EQ(plans[2].batches.count, 1);
  EXPECT_EQ(plans[1].batches.count, 0);
}

TEST(PlanStats, DoesNotLookAtDevicesThatNobodyKnows) {
  PlanStats stats(2);
  EXPECT_FALSE(stats.adopt({at(0), {{{{2}, {}, 16}}, 4}, 95, "a damaged record"}));
  EXPECT_FALSE(stats.summary());
  stats.adopt({at(0), kPair, 95, "the first"});
  stats.add({at(1), 95, 100, true, {{2'000'000'000, 16, from_seconds(0.06)}}});
  EXPECT_TRUE(stats.history().batches.at(0).computed_ms.empty());
}

TEST(PlanStats, KeepsWhatLinksBetweenStagesCarry) {
  PlanStats stats(2);
  const auto measured = [&](double at_s, int from, int to, std::int64_t bytes, bool shared) {
    stats.add(at(at_s), {HostPlace(from), HostPlace(to), bytes, from_seconds(0.5), shared});
  };
  measured(1, 0, 1, 100, false);
  measured(1, 1, 0, 80, false);
  measured(1, 0, 2, 999, true);
  measured(2, 0, 1, 60, false);
  const auto links = stats.history().links;
  ASSERT_EQ(links.size(), 2u) << "what servers get does not say what a link carries";
  EXPECT_EQ(links[0].to, HostPlace(1));
  ASSERT_EQ(links[0].points.size(), 2u);
  EXPECT_EQ(links[0].points[1].bytes, 60);
  for (int i = 0; i < 10'000; ++i) measured(3 + i, i % 100, 1 + i % 100, 100, false);
  ASSERT_EQ(stats.history().links.size(), PlanStats::kLinks);
  for (const LinkHistory& link : stats.history().links) ASSERT_LE(link.points.size(), PlanStats::kLinkPoints);
}

TEST(PlanStats, KeepsTheLoadOfAnyLength) {
  PlanStats stats(2);
  stats.adopt({at(0), kPair, 95, "the first"});
  for (int i = 1; i <= 10'000; ++i) stats.add(batch(0.1 * i, 95, 100));
  const auto points = stats.history().batches;
  ASSERT_LE(points.size(), PlanStats::kBatchPoints);
  std::int64_t batches = 0;
  for (const BatchPoint& point : points) {
    batches += point.regular.count;
    ASSERT_EQ(point.computed_ms.size(), 2u);
    EXPECT_NEAR(point.computed_ms[0] / point.elapsed_ms, 0.6, 1e-9);
  }
  EXPECT_EQ(batches, 10'000);
}

}  // namespace
}  // namespace paceline::report

// Learning rates against numbers worked out by hand.
#include "paceline/decisions/control/lr_schedule.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::control {
namespace {

TEST(LrSchedule, ConstantStaysAtItsBase) {
  LrSchedule schedule;
  schedule.base = 0.3;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1'000'000'000), 0.3);
}

TEST(LrSchedule, StepFallsAtEachMilestoneAndNotBefore) {
  const LrSchedule schedule{
      .shape = LrShape::kStep, .base = 0.05, .warmup = 0, .milestones = {200, 250}, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 199), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 200), 0.005);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 249), 0.005);
  EXPECT_NEAR(learning_rate(schedule, 250), 0.0005, 1e-15);
  EXPECT_NEAR(learning_rate(schedule, 9999), 0.0005, 1e-15);
}

LrSchedule tabled(std::vector<LrPoint> table) {
  return {.shape = LrShape::kTable, .base = 0.5, .warmup = 0, .milestones = {}, .table = std::move(table)};
}

TEST(LrSchedule, ATableIsLinearBetweenItsPointsAndConstantOutside) {
  const LrSchedule schedule = tabled({{100, 0.2}, {300, 1.0}, {400, 0.5}});
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 150), 0.2);  // a quarter of the way from 0.2 to 1
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 300), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 350), 0.375);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 400), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1'000'000'000), 0.25);
}

TEST(LrSchedule, TwoPointsAtTheSameSampleAreAJump) {
  const LrSchedule schedule = tabled({{0, 0.0}, {100, 1.0}, {100, 0.2}, {200, 0.2}, {200, 0}});
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 0.495);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 199), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 200), 0);
  EXPECT_DOUBLE_EQ(learning_rate(tabled({{0, 1}, {0, 0.5}}), 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(tabled({{7, 0.5}}), 3), 0.25);
}

// Against a walk over all points.
TEST(LrSchedule, ALongTableIsWhatAWalkOverItGives) {
  std::vector<LrPoint> table;
  for (std::int64_t i = 0; i < 10'000; ++i)
    table.push_back({i * i / 7, 1.0 + static_cast<double>(i * 37 % 101) / 10});
  const LrSchedule schedule = tabled(table);
  for (std::int64_t committed = 0; committed < 15'000'000; committed += 7919) {
    double expected = table.back().factor;
    for (std::size_t i = 0; i + 1 < table.size(); ++i) {
      if (table[i].samples > committed || table[i + 1].samples <= committed) continue;
      const double span = static_cast<double>(table[i + 1].samples - table[i].samples);
      const double way = static_cast<double>(committed - table[i].samples) / span;
      expected = (1 - way) * table[i].factor + way * table[i + 1].factor;
    }
    ASSERT_NEAR(learning_rate(schedule, committed), 0.5 * expected, 1e-12) << committed;
  }
}

TEST(LrSchedule, CosineGoesFromBaseToLast) {
  const LrSchedule schedule{.shape = LrShape::kCosine,
                            .base = 0.5,
                            .warmup = 0,
                            .milestones = {},
                            .gamma = 0.1,
                            .total = 600,
                            .last = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.5);
  EXPECT_NEAR(learning_rate(schedule, 200), 0.4, 1e-12);  // cos 60° = 1/2
  EXPECT_NEAR(learning_rate(schedule, 300), 0.3, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 400), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 600), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 6000), 0.1, 1e-12) << "and stays there";
}

TEST(LrSchedule, WarmUpRisesLinearlyFromNearlyNothing) {
  LrSchedule schedule;
  schedule.base = 0.4;
  schedule.warmup = 1000;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.4 * 0.005);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.04);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 500), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 999), 0.4 * 0.999);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 0.4);
}

TEST(LrSchedule, TheCosineBeginsAfterTheWarmUp) {
  const LrSchedule schedule{.shape = LrShape::kCosine,
                            .base = 1.0,
                            .warmup = 100,
                            .milestones = {},
                            .gamma = 0.1,
                            .total = 300,
                            .last = 0.0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 50), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 200), 0.5, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 300), 0.0, 1e-12);
}

TEST(LrSchedule, ACosineWithNoRoomGoesToItsEndAtOnce) {
  const LrSchedule schedule{.shape = LrShape::kCosine,
                            .base = 1.0,
                            .warmup = 100,
                            .milestones = {},
                            .gamma = 0.1,
                            .total = 100,
                            .last = 0.25};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 101), 0.25, 1e-12);
}

}  // namespace
}  // namespace paceline::control

// Learning rates against numbers worked out by hand.
#include "paceline/control/lr_schedule.h"

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

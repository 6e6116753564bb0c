// The second best plan, and what would fit, by hand.
#include "paceline/decisions/planner/second_best.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/planner/what_fits.h"

namespace paceline::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Six equal layers of 1 ms, 1 MB of weights and 1 MB kept of a sample, on devices of these memories.
Problem six_layers(const std::vector<std::int64_t>& megabytes) {
  Problem problem;
  for (int l = 0; l < 6; ++l)
    problem.model.layers.push_back({"layer", 1, 1.0 / 3, 1000, 1'000'000, 1'000'000});
  for (const std::int64_t memory : megabytes) {
    Device device;
    device.name = "d" + std::to_string(problem.cluster.devices.size());
    device.memory_bytes = memory * 1'000'000;
    problem.cluster.devices.push_back(device);
  }
  problem.cluster.links.assign(megabytes.size() * megabytes.size(), {0.01, 1e6});
  problem.batch = 8;
  problem.micro_batches = {1};
  return problem;
}

TEST(SecondBest, IsTheCutBesideTheBestOne) {
  // All layers need 18 MB with one sample. d1 is half as fast, so four layers on d0 and two on d1 take equally long.
  Problem problem = six_layers({17, 17});
  problem.cluster.devices[1].speed = 0.5;
  const auto planned = make_plan(problem, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_EQ(planned->found.plan.replicas.size(), 1u);
  EXPECT_EQ(planned->found.plan.replicas[0].devices, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(planned->found.plan.replicas[0].cuts, (std::vector<std::int32_t>{4}));
  const auto second = second_best(problem, *planned);
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(second->evaluation.batch_ms, planned->forecast.batch_ms);
  EXPECT_FALSE(same_stages(second->plan, planned->found.plan));
  EXPECT_THAT(second->reason,
              AllOf(HasSubstr("times as long, held up by layers"), HasSubstr("synchronizing")));
  // No other plan lies between the two.
  for (const BaselineResult& one : planned->baselines) {
    if (!one.plan.ok() || same_stages(*one.plan, planned->found.plan)) continue;
    EXPECT_GE(one.evaluation.batch_ms, second->evaluation.batch_ms * (1 - 1e-9)) << one.name;
  }
}

TEST(SecondBest, IsNotTheSameOnDevicesThatAreAlike) {
  const Problem problem = six_layers({17, 17});
  const auto planned = make_plan(problem, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto second = second_best(problem, *planned);
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(second->evaluation.batch_ms, 1.01 * planned->forecast.batch_ms);
}

TEST(SecondBest, IsNothingIfThereIsOnePlan) {
  const Problem problem = six_layers({100});
  const auto planned = make_plan(problem, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_FALSE(second_best(problem, *planned).has_value());
}

TEST(WhatFits, SaysHowManyDevicesMore) {
  // A third of the model needs 4 MB, and 2 MB for each micro-batch under way: 3, 2 and 1 of them.
  EXPECT_EQ(what_would_fit(six_layers({10, 8})), "1 more device like d0 would be enough");
  EXPECT_EQ(what_would_fit(six_layers({4})),
            "");  // three devices of one layer each hold no more than one layer
}

TEST(WhatFits, SaysWhichMicroBatchIsSmallEnough) {
  Problem problem = six_layers({24});
  problem.micro_batches = {4, 8};
  EXPECT_EQ(what_would_fit(problem), "micro-batches of 2 would fit, or 1 more device like d0");
  const absl::Status status = make_plan(problem, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("needs 36 MB of memory"), HasSubstr("has 24 MB"),
                    HasSubstr("; micro-batches of 2 would fit, or 1 more device like d0")));
}

}  // namespace
}  // namespace paceline::planner

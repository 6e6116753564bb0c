// How the samples of a round are cut into steps. That the steps are right, virtual_time_test says.
#include "paceline/compute/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<std::size_t> sizes(const std::vector<engine::Batch>& parts) {
  std::vector<std::size_t> all;
  for (const engine::Batch& part : parts) all.push_back(part.samples.size());
  return all;
}

TEST(StepSamples, AreTheSamplesOfTheLeaseInTheirOrder) {
  SampleOrder order(1, 100);
  const Lease lease{2, 10, 33};
  std::vector<std::int32_t> all;
  for (const engine::Batch& part : step_samples(order, lease, 4))
    all.insert(all.end(), part.samples.begin(), part.samples.end());
  EXPECT_THAT(all, ElementsAreArray(order.samples(lease)));
}

TEST(StepSamples, DifferByAtMostOneSample) {
  SampleOrder order(1, 100);
  EXPECT_THAT(sizes(step_samples(order, {0, 0, 32}, 4)), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(sizes(step_samples(order, {0, 0, 10}, 4)), ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(sizes(step_samples(order, {0, 0, 2}, 3)), ElementsAre(1, 1)) << "an empty one is left out";
}

// So that a round of one step is what BSP computes.
TEST(StepSamples, OneStepIsTheLease) {
  SampleOrder order(1, 100);
  const Lease lease{2, 10, 33};
  const auto parts = step_samples(order, lease, 1);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_THAT(parts[0].samples, ElementsAreArray(order.samples(lease)));
  EXPECT_EQ(parts[0].augment_seed, order.augment_seed(lease));
  EXPECT_EQ(parts[0].step_seed, order.step_seed(lease));
}

TEST(StepSamples, OfAnotherDataSetAreNone) {
  SampleOrder order(1, 100);
  EXPECT_TRUE(step_samples(order, {0, 90, 130}, 1).empty());
}

}  // namespace
}  // namespace paceline::compute

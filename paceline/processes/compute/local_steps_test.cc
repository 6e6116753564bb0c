// How the samples of a round are cut into steps, what a step without a gradient comes to, and when momentum ends. That
// the steps are right, virtual_time_test says.
#include "paceline/processes/compute/local_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

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

// Skips its first steps, and leaves in the gradient what no step should hand on.
class Skips : public engine::Engine {
 public:
  Skips(int times, bool retry) : left_(times), retry_(retry) {
    layout_.add("weight", ps::TensorKind::kParameter, {3});
    layout_.add("mean", ps::TensorKind::kStatistic, {2});
    layout_.add("frozen", ps::TensorKind::kConstant, {2});
  }

  const ps::Layout& layout() const override { return layout_; }
  std::int32_t samples() const override { return 8; }
  absl::Status initial_weights(std::span<float>) override { return absl::OkStatus(); }
  absl::Status prepare(const engine::Batch& batch) override {
    prepared_ = batch.samples == std::vector<std::int32_t>{1, 2};
    return absl::OkStatus();
  }
  absl::StatusOr<engine::StepResult> step(const engine::Weights&, std::span<float* const> gradients,
                                          std::int64_t, const engine::KeepGoing&) override {
    EXPECT_TRUE(std::exchange(prepared_, false)) << "a batch is prepared for one step";
    steps += 1;
    const bool skipped = left_-- > 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const float value = skipped ? std::numeric_limits<float>::quiet_NaN() : 0.5f;
      std::fill_n(gradients[i], layout_.tensors()[i].size, value);
    }
    return engine::StepResult{.loss = 2, .skipped = skipped, .retry = skipped && retry_};
  }
  absl::StatusOr<engine::Evaluation> evaluate(std::span<const float* const>, std::int64_t,
                                              const engine::KeepGoing&) override {
    return absl::UnimplementedError("it only steps");
  }

  int steps = 0;

 private:
  ps::Layout layout_;
  bool prepared_ = true;  // the first time the caller has done it
  int left_;
  bool retry_;
};

class StepUntilTaken : public ::testing::Test {
 protected:
  absl::StatusOr<engine::StepResult> take(Skips& engine) {
    weights_.assign(static_cast<std::size_t>(engine.layout().size()), 7);
    gradient_.assign(weights_.size(), 9);
    const auto weights = engine::tensor_pointers<const float>(engine.layout(), weights_.data());
    const auto gradients = engine::tensor_pointers(engine.layout(), gradient_.data());
    return step_until_taken(engine, {.samples = {1, 2}}, weights, gradients, engine::kWholeBatch,
                            [] { return true; });
  }
  std::vector<float> gradient_of(const Skips& engine, std::size_t tensor) const {
    const ps::TensorSpec& spec = engine.layout().tensors()[tensor];
    return {gradient_.begin() + spec.offset, gradient_.begin() + spec.offset + spec.size};
  }

 private:
  std::vector<float> weights_, gradient_;
};

// A batch that has no gradient would have none the next time either, on any worker.
TEST_F(StepUntilTaken, ASkippedStepIsAZeroGradient) {
  Skips engine(1000, false);
  const auto result = take(engine);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(engine.steps, 1);
  EXPECT_EQ(result->loss, 2);
  EXPECT_TRUE(result->finite);
  EXPECT_THAT(gradient_of(engine, 0), ElementsAre(0, 0, 0));
  EXPECT_THAT(gradient_of(engine, 1), ElementsAre(7, 7)) << "statistics stay what they are";
  EXPECT_THAT(gradient_of(engine, 2), ElementsAre(9, 9)) << "constants are left alone";
}

TEST_F(StepUntilTaken, AnOverflowIsTriedAgain) {
  Skips engine(3, true);
  const auto result = take(engine);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(engine.steps, 4);
  EXPECT_THAT(gradient_of(engine, 0), ElementsAre(0.5, 0.5, 0.5));
}

TEST_F(StepUntilTaken, AnOverflowWithoutAnEndIsAnError) {
  Skips engine(1000, true);
  EXPECT_EQ(take(engine).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(engine.steps, 40);
}

// The gradient of each number is what the test says.
class Constant : public engine::Engine {
 public:
  Constant() { layout_.add("weight", ps::TensorKind::kParameter, {1}); }
  const ps::Layout& layout() const override { return layout_; }
  std::int32_t samples() const override { return 8; }
  absl::Status initial_weights(std::span<float>) override { return absl::OkStatus(); }
  absl::Status prepare(const engine::Batch&) override { return absl::OkStatus(); }
  absl::StatusOr<engine::StepResult> step(const engine::Weights&, std::span<float* const> gradients,
                                          std::int64_t, const engine::KeepGoing&) override {
    *gradients[0] = gradient;
    return results.empty() ? engine::StepResult{.loss = 2} : results.at(step_++);
  }
  absl::StatusOr<engine::Evaluation> evaluate(std::span<const float* const>, std::int64_t,
                                              const engine::KeepGoing&) override {
    return absl::UnimplementedError("it only steps");
  }

  float gradient = 1;
  std::vector<engine::StepResult> results;  // one for each step; none: all are alike

 private:
  std::size_t step_ = 0;
  ps::Layout layout_;
};

// An iteration of one step from weights of 0, at a rate of 1.
float contribution(LocalSteps& steps, Constant& engine) {
  const float weight = 0;
  float moved = 0;
  const float* const weights[] = {&weight};
  float* const contributions[] = {&moved};
  const engine::Batch batches[] = {{.samples = {1}}};
  EXPECT_TRUE(steps.take(engine, batches, 1.0, weights, contributions, [] { return true; }).ok());
  return moved;
}

TEST(LocalSteps, ANewReplicaBeginsWithoutTheMomentumOfTheLastOne) {
  Constant engine;
  auto steps = LocalSteps::create(engine.layout(), {.kind = ps::OptimizerKind::kSgd, .momentum = 0.5});
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(contribution(*steps, engine), 1);
  EXPECT_EQ(contribution(*steps, engine), 1.5) << "the momentum goes on from round to round";
  engine.gradient = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(contribution(*steps, engine)));
  engine.gradient = 1;
  steps->reset_momentum();
  EXPECT_EQ(contribution(*steps, engine), 1);
}

// An iteration of one step for each of these results.
engine::StepResult mean_of(const std::vector<engine::StepResult>& results,
                           const std::vector<engine::Batch>& batches) {
  Constant engine;
  engine.results = results;
  auto steps = LocalSteps::create(engine.layout(), {.kind = ps::OptimizerKind::kSgd});
  EXPECT_TRUE(steps.ok()) << steps.status();
  const float weight = 0;
  float moved = 0;
  const float* const weights[] = {&weight};
  float* const contributions[] = {&moved};
  const auto mean = steps->take(engine, batches, 1.0, weights, contributions, [] { return true; });
  EXPECT_TRUE(mean.ok()) << mean.status();
  return mean.value_or(engine::StepResult{});
}

TEST(LocalSteps, AMetricIsTheMeanOverTheStepsThatHaveIt) {
  const auto mean = mean_of({{.loss = 2, .metrics = {{"f1", 0.8}}}, {.loss = 5}, {.loss = 5}},
                            {{.samples = {1, 2}}, {.samples = {3}}, {.samples = {4}}});
  EXPECT_DOUBLE_EQ(mean.metrics.at("f1"), 0.8);
  EXPECT_DOUBLE_EQ(mean.loss, 3.5) << "each step counts as much as its samples";
  EXPECT_EQ(mean.weight, std::nullopt);
}

TEST(LocalSteps, AStepCountsAsMuchAsItsWeight) {
  const auto mean = mean_of({{.loss = 8, .metrics = {{"right", 0}}, .weight = 10},
                             {.loss = 2, .metrics = {{"right", 1}}, .weight = 990},
                             {.loss = 0, .metrics = {{"right", 0}}, .weight = 0}},
                            {{.samples = {1}}, {.samples = {2}}, {.samples = {3}}});
  EXPECT_DOUBLE_EQ(mean.loss, 2.06);
  EXPECT_DOUBLE_EQ(mean.metrics.at("right"), 0.99);
  EXPECT_EQ(mean.weight, 1000);
}

TEST(LocalSteps, StepsBehindTheEndOfTheDataSayNothing) {
  const auto mean =
      mean_of({{.loss = 4, .metrics = {{"right", 1}}, .weight = 7}, {.skipped = true, .data_end = 1}},
              {{.samples = {0}}, {.samples = {1}}, {.samples = {2}}});
  EXPECT_DOUBLE_EQ(mean.loss, 4);
  EXPECT_DOUBLE_EQ(mean.metrics.at("right"), 1);
  EXPECT_EQ(mean.weight, 7);
  EXPECT_EQ(mean.data_end, 1);
  EXPECT_EQ(mean_of({{.skipped = true, .data_end = 0}}, {{.samples = {0}}}).weight, std::nullopt);
}

}  // namespace
}  // namespace paceline::compute

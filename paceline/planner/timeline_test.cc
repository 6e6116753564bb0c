// The exact schedule against courses worked out by hand, and the closed form α + β·M against the exact
// schedule.
#include "paceline/planner/timeline.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/planner/cost_model.h"

namespace paceline::planner {
namespace {

PipelineTimes random_pipeline(Rng& rng, std::size_t stages, double link_scale) {
  PipelineTimes times;
  for (std::size_t s = 0; s < stages; ++s) {
    times.forward_ms.push_back(0.1 + 3 * rng.uniform());
    times.backward_ms.push_back(times.forward_ms.back() * (1 + 2 * rng.uniform()));
    if (s == 0) continue;
    times.links.push_back({link_scale * rng.uniform(), 1});
    times.bytes.push_back(link_scale * rng.uniform());
  }
  return times;
}

ReplicaTime closed_form(const PipelineTimes& times) {
  std::vector<double> stages, links;
  for (std::size_t s = 0; s < times.forward_ms.size(); ++s) {
    stages.push_back(times.forward_ms[s] + times.backward_ms[s]);
    if (s > 0) links.push_back(2 * times.links[s - 1].ms(times.bytes[s - 1]));
  }
  return pipeline_time(stages, links);
}

TEST(Timeline, OneStageIsASum) { EXPECT_DOUBLE_EQ(pipeline_ms({{1}, {2}, {}, {}}, 5, 0.5), 13.5); }

TEST(Timeline, TwoStagesByHand) {
  // Forward 1, backward 2 on both, 0.5 between. Stage 0: F 0–1, F 1–2; stage 1: F 1.5–2.5, B 2.5–4.5,
  // F 4.5–5.5, B 5.5–7.5; stage 0: B 5–7, B 8–10.
  EXPECT_DOUBLE_EQ(pipeline_ms({{1, 1}, {2, 2}, {{0.5}}, {0}}, 2), 10);
}

TEST(Timeline, OneMicroBatchGoesThereAndBack) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const PipelineTimes times = random_pipeline(rng, 1 + rng.below(6), 2);
    const ReplicaTime closed = closed_form(times);
    EXPECT_NEAR(pipeline_ms(times, 1), closed.alpha_ms + closed.beta_ms, 1e-9);
  }
}

// With links as slow as stages the start of a few micro-batches may take a little more than the mean says.
TEST(Timeline, TheClosedFormIsAboveItAndClose) {
  Rng rng(2);
  for (int i = 0; i < 20'000; ++i) {
    const PipelineTimes times = random_pipeline(rng, 1 + rng.below(6), i % 3);
    const std::int64_t count = 1 + static_cast<std::int64_t>(rng.below(20));
    const ReplicaTime closed = closed_form(times);
    const double exact = pipeline_ms(times, count);
    const double predicted = closed.alpha_ms + closed.beta_ms * double(count);
    ASSERT_LE(exact, 1.01 * predicted) << i;
    ASSERT_GE(exact, 0.75 * predicted) << i;
  }
}

TEST(Timeline, BetaIsItsSlope) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const PipelineTimes times = random_pipeline(rng, 1 + rng.below(6), i % 3);
    constexpr std::int64_t kShort = 600, kLong = 1800;
    const double slope = (pipeline_ms(times, kLong) - pipeline_ms(times, kShort)) / double(kLong - kShort);
    ASSERT_NEAR(slope, closed_form(times).beta_ms, 1e-2 * slope) << i;
  }
}

TEST(Timeline, ExactWhereTheLastStageIsTheSlowestAndLinksAreFree) {
  Rng rng(4);
  for (int i = 0; i < 2000; ++i) {
    PipelineTimes times = random_pipeline(rng, 1 + rng.below(6), 0);
    const auto slowest = std::max_element(times.forward_ms.begin(), times.forward_ms.end());
    std::swap(*slowest, times.forward_ms.back());
    times.backward_ms.back() = *std::max_element(times.backward_ms.begin(), times.backward_ms.end());
    const std::int64_t count = 1 + static_cast<std::int64_t>(rng.below(20));
    const ReplicaTime closed = closed_form(times);
    ASSERT_NEAR(pipeline_ms(times, count), closed.alpha_ms + closed.beta_ms * double(count), 1e-9) << i;
  }
}

TEST(CostModel, GradientsOfOtherHostsComeTogetherOnTheFirstStages) {
  Problem problem;
  for (int l = 0; l < 3; ++l) problem.model.layers.push_back({"layer", 1, 1.0 / 3, 0, 0, 1000 << l});
  problem.cluster.devices.resize(3);
  problem.cluster.links.assign(9, {0.5, 10});
  problem.batch = 8;
  problem.micro_batches = {2};
  const PlannedReplica pipeline{{0, 1, 2}, {1, 2}, 8};
  const double on_one = CostModel(problem).terms(pipeline, 2).time.alpha_ms;
  problem.cluster.devices[1].host = 1;
  EXPECT_NEAR(CostModel(problem).terms(pipeline, 2).time.alpha_ms - on_one, 0.5 + 2000.0 / 10, 1e-9);
  problem.cluster.devices[2].host = 1;
  EXPECT_NEAR(CostModel(problem).terms(pipeline, 2).time.alpha_ms - on_one, 1 + 6000.0 / 10, 1e-9);
  problem.cluster.devices[0].host = 1;
  EXPECT_EQ(CostModel(problem).terms(pipeline, 2).time.alpha_ms, on_one);
}

}  // namespace
}  // namespace paceline::planner

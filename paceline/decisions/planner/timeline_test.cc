// The exact schedule against courses worked out by hand, and the closed form α + β·M against the exact
// schedule.
#include "paceline/decisions/planner/timeline.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/planner/cost_model.h"

namespace paceline::planner {
namespace {

// Stages of up to `widest` devices, which are alike in a stage.
PipelineTimes random_pipeline(Rng& rng, std::size_t stages, double link_scale, std::size_t widest = 1) {
  PipelineTimes times;
  for (std::size_t s = 0; s < stages; ++s) {
    StageTimes& stage = times.stages.emplace_back();
    const double forward = 0.1 + 3 * rng.uniform(), backward = forward * (1 + 2 * rng.uniform());
    stage.forward_ms.assign(widest == 1 ? 1 : 1 + rng.below(widest), forward);
    stage.backward_ms.assign(stage.forward_ms.size(), backward);
    if (s == 0) continue;
    stage.links.assign(stage.forward_ms.size() * times.stages[s - 1].forward_ms.size(),
                       {link_scale * rng.uniform(), 1});
    stage.bytes = link_scale * rng.uniform();
  }
  return times;
}

PipelineTimes of_single_devices(const std::vector<double>& forward, const std::vector<double>& backward,
                                Link link = {}) {
  PipelineTimes times;
  for (std::size_t s = 0; s < forward.size(); ++s)
    times.stages.push_back({{forward[s]}, {backward[s]}, std::vector<Link>(s == 0 ? 0 : 1, link), 0});
  return times;
}

ReplicaTime closed_form(const PipelineTimes& times) {
  std::vector<double> stages, links;
  std::vector<std::size_t> widths;
  for (const StageTimes& stage : times.stages) {
    stages.push_back(stage.forward_ms.front() + stage.backward_ms.front());
    widths.push_back(stage.forward_ms.size());
    if (!stage.links.empty()) links.push_back(2 * stage.links.front().ms(stage.bytes));
  }
  return pipeline_time(stages, links, widths);
}

TEST(Timeline, OneStageIsASum) { EXPECT_DOUBLE_EQ(pipeline_ms(of_single_devices({1}, {2}), 5, 0.5), 13.5); }

TEST(Timeline, TwoStagesByHand) {
  // Forward 1, backward 2 on both, 0.5 between. Stage 0: F 0–1, F 1–2; stage 1: F 1.5–2.5, B 2.5–4.5,
  // F 4.5–5.5, B 5.5–7.5; stage 0: B 5–7, B 8–10.
  EXPECT_DOUBLE_EQ(pipeline_ms(of_single_devices({1, 1}, {2, 2}, {0.5}), 2), 10);
}

TEST(Timeline, TwoDevicesShareTheFirstStageByHand) {
  // Forward 2, backward 4 on a and b; 1 and 2 on c; links are free. a: F0 0–2, F2 2–4; b: F1 0–2, F3 2–4.
  // c: F0 2–3, B0 3–5, F1 5–6, B1 6–8, F2 8–9, B2 9–11, F3 11–12, B3 12–14. a and b keep two
  // micro-batches each. a: B0 5–9, B2 11–15; b: B1 8–12, B3 14–18.
  PipelineTimes times;
  times.stages.push_back({{2, 2}, {4, 4}, {}, 0});
  times.stages.push_back({{1}, {2}, {Link{}, Link{}}, 0});
  EXPECT_DOUBLE_EQ(pipeline_ms(times, 4), 18);
}

TEST(Timeline, OneMicroBatchGoesThereAndBack) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const PipelineTimes times = random_pipeline(rng, 1 + rng.below(6), 2);
    const ReplicaTime closed = closed_form(times);
    EXPECT_NEAR(pipeline_ms(times, 1), closed.alpha_ms + closed.beta_ms, 1e-9);
  }
}

// The exact schedule of random pipelines is at most `most` times the closed form, and at least `least` times.
void expect_close(Rng rng, std::size_t widest, double most, double least) {
  for (int i = 0; i < 20'000; ++i) {
    const PipelineTimes times = random_pipeline(rng, 1 + rng.below(6), i % 3, widest);
    const std::int64_t count = 1 + static_cast<std::int64_t>(rng.below(20));
    const ReplicaTime closed = closed_form(times);
    const double exact = pipeline_ms(times, count);
    const double predicted = closed.alpha_ms + closed.beta_ms * double(count);
    ASSERT_LE(exact, most * predicted) << i;
    ASSERT_GE(exact, least * predicted) << i;
  }
}

// With links as slow as stages the start of a few micro-batches may take a little more than the mean says.
TEST(Timeline, TheClosedFormIsAboveItAndClose) { expect_close(Rng(2), 1, 1.01, 0.75); }

// Devices that share a stage are as fast as one device of their joint speed, except for the first
// micro-batch, and for the last ones if some devices have none left.
TEST(Timeline, TheClosedFormIsCloseWhereStagesAreShared) { expect_close(Rng(5), 4, 1.08, 0.55); }

// No device waits in vain: if links are free, the slowest stage never stands still.
TEST(Timeline, BetaIsItsSlopeWhereStagesAreShared) {
  Rng rng(6);
  for (int i = 0; i < 1000; ++i) {
    const PipelineTimes times = random_pipeline(rng, 2 + rng.below(4), i % 3, 4);
    constexpr std::int64_t kShort = 600, kLong = 1800;
    const double slope = (pipeline_ms(times, kLong) - pipeline_ms(times, kShort)) / double(kLong - kShort);
    const double beta = closed_form(times).beta_ms;
    ASSERT_LE(slope, 1.01 * beta) << i;
    ASSERT_GE(slope, (i % 3 == 0 ? 0.99 : 0.55) * beta) << i;
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
    double forward = 0, backward = 0;
    for (const StageTimes& stage : times.stages) {
      forward = std::max(forward, stage.forward_ms.front());
      backward = std::max(backward, stage.backward_ms.front());
    }
    times.stages.back().forward_ms = {forward};
    times.stages.back().backward_ms = {backward};
    const std::int64_t count = 1 + static_cast<std::int64_t>(rng.below(20));
    const ReplicaTime closed = closed_form(times);
    ASSERT_NEAR(pipeline_ms(times, count), closed.alpha_ms + closed.beta_ms * double(count), 1e-9) << i;
  }
}

TEST(CostModel, DevicesThatShareAStageTakeTurns) {
  Problem problem;
  for (int l = 0; l < 3; ++l) problem.model.layers.push_back({"layer", 1, 1.0 / 3, 10, 100, 1000 << l});
  problem.cluster.devices.resize(3);
  problem.cluster.devices[1].speed = 0.5;
  for (Device& device : problem.cluster.devices) device.power_w = 3;
  problem.cluster.links.assign(9, {0.5, 10});
  problem.batch = 8;
  problem.micro_batches = {2};
  const CostModel model(problem);
  // Layers 0 and 1 on devices 0 and 1, layer 2 on device 2.
  const Plan plan{{{{0, 1, 2}, {0, 2}, 8}}, 2};
  ASSERT_TRUE(model.check(plan).ok()) << model.check(plan);
  const Forecast forecast = model.forecast(plan);
  const ReplicaForecast& replica = forecast.replicas[0];
  EXPECT_EQ(replica.device_ms, (std::vector<double>{4, 8, 2}));
  // 2 · (0.5 + 2·10/10) of both links.
  EXPECT_EQ(replica.link_ms, (std::vector<double>{5}));
  // The stage is as slow as device 1, with half of the micro-batches: 8/2; all: (8 + 5 + 2)/3.
  EXPECT_DOUBLE_EQ(replica.beta_ms, 5);
  EXPECT_DOUBLE_EQ(replica.alpha_ms + replica.beta_ms, 15);
  // Weights and gradients of layers 0 and 1, and two micro-batches of both layers; of layer 2 and one.
  std::vector<std::int64_t> bytes;
  for (const StageMemory& memory : replica.memory) bytes.push_back(memory.total());
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{6800, 6800, 8200}));
  EXPECT_EQ(model.terms(plan.replicas[0], 2).pushed_bytes, 3000 + 3000 + 4000);
  // Each of the two computes half of the samples: 3 W · (4 · 2 + 4 · 4 + 8 · 1 ms).
  EXPECT_NEAR(forecast.costs[static_cast<std::size_t>(CostKind::kEnergy)], 3 * 32e-3, 1e-12);
}

TEST(CostModel, APlanHasAtLeastTwoStagesWhereItHasSeveralDevices) {
  Problem problem;
  problem.model.layers.resize(3);
  problem.cluster.devices.resize(3);
  problem.cluster.links.resize(9);
  problem.batch = 8;
  problem.micro_batches = {2};
  const CostModel model(problem);
  const auto check = [&](std::vector<std::int32_t> cuts) {
    return model.check(Plan{{{{0, 1, 2}, std::move(cuts), 8}}, 2});
  };
  EXPECT_TRUE(check({0, 1}).ok());
  EXPECT_TRUE(check({2, 2}).ok());
  EXPECT_FALSE(check({0, 0}).ok());
  EXPECT_FALSE(check({2, 1}).ok());
  EXPECT_FALSE(check({-1, 1}).ok());
  EXPECT_FALSE(check({1, 3}).ok());
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

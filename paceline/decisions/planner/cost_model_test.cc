// Memory and times of stages against sums made by hand.
#include "paceline/decisions/planner/cost_model.h"

#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

// Three layers. The last one has weights of the first one too.
Problem three_layers() {
  Problem problem;
  problem.model.layers = {{.name = "first", .work_ms = 2, .activation_bytes = 10, .parameter_bytes = 1000},
                          {.name = "frozen",
                           .work_ms = 4,
                           .activation_bytes = 20,
                           .parameter_bytes = 500,
                           .fixed_ms = 3,
                           .frozen_bytes = 400},
                          {.name = "last",
                           .work_ms = 6,
                           .activation_bytes = 30,
                           .parameter_bytes = 70,
                           .fixed_ms = 1,
                           .tied_bytes = 800,
                           .tied_to = 0}};
  problem.cluster.devices.resize(2);
  problem.cluster.devices[1].speed = 0.5;
  problem.cluster.devices[1].overhead_ms = 7;
  problem.cluster.links.resize(4);
  problem.batch = 16;
  problem.micro_batches = {4};
  return problem;
}

void expect_memory(const StageMemory& memory, std::int64_t weights, std::int64_t gradients,
                   double activations) {
  EXPECT_EQ(memory.weights, weights);
  EXPECT_EQ(memory.gradients, gradients);
  EXPECT_EQ(memory.activations, activations);
  EXPECT_EQ(memory.total(), weights + gradients + static_cast<std::int64_t>(activations));
}

TEST(StageMemory, FrozenWeightsHaveNoGradient) {
  const Problem problem = three_layers();
  expect_memory(CostModel(problem).memory(0, 2, 4, 2), 1500, 1000 + 100, 2 * 4 * (10 + 20));
}

TEST(StageMemory, TiedWeightsAreOnBothStagesAndOnceOnOne) {
  const Problem problem = three_layers();
  const CostModel model(problem);
  expect_memory(model.memory(2, 3, 4, 1), 70 + 800, 70 + 800, 4 * 30);
  expect_memory(model.memory(1, 3, 4, 1), 570 + 800, 170 + 800, 4 * 50);
  expect_memory(model.memory(0, 3, 4, 1), 1570, 1170, 4 * 60);
}

TEST(StageMemory, MeasuredLayersNeedTheLargestWorkingMemoryAndHoldTheirOutputs) {
  Problem problem = three_layers();
  problem.model.layers[0].working_fixed_bytes = 100;
  problem.model.layers[1].working_bytes = 30;
  problem.model.layers[1].output_bytes = 7;
  const CostModel model(problem);
  // The gradient of the tied weight comes from the stage behind.
  EXPECT_EQ(model.memory(0, 2, 4, 2).working, 800 + 4 * 30);
  EXPECT_EQ(model.memory(0, 2, 2, 2).working, 800 + 100 - 2 * 20);
  EXPECT_EQ(model.memory(0, 2, 4, 2).activations, 2 * 4 * (10 + 20 + 7));
  EXPECT_EQ(model.memory(0, 2, 4, 2).total(), 1500 + 1100 + 296 + 800 + 120);
  EXPECT_EQ(model.memory(2, 3, 4, 2).working, 0);
  EXPECT_EQ(model.memory(0, 3, 4, 2).activations, 2 * 4 * 60);
}

TEST(CostModel, GradientsOfTiedWeightsComeBackWithEachMicroBatch) {
  Problem problem = three_layers();
  problem.model.layers[1].output_bytes = 10;
  problem.model.layers[1].returned_bytes = 800;
  problem.cluster.links.assign(4, {.latency_ms = 1, .bytes_per_ms = 20});
  problem.cluster.devices[1].site = 1;
  const CostModel model(problem);
  EXPECT_DOUBLE_EQ(model.transfer_ms(0, 1, 2, 4), 2 * (1 + 40.0 / 20) + 800.0 / 20);
  const PlannedReplica replica{.devices = {0, 1}, .cuts = {2}, .samples = 16};
  const Plan plan{.replicas = {replica}, .micro_batch = 4};
  const double crossed = 16 * 2 * 10 + 4 * 800;
  const auto sites = static_cast<std::size_t>(CostKind::kCrossSite);
  const double without_servers = model.costs(plan, 1)[sites] - 2 * 70;
  EXPECT_DOUBLE_EQ(without_servers, crossed);
  // The exact schedule moves as many bytes in all.
  EXPECT_DOUBLE_EQ(2 * model.timeline_input(replica, 4).stages[1].bytes, 2 * 40 + 800);
}

TEST(StageMemory, WeightsTiedToFrozenOnesHaveNoGradient) {
  Problem problem = three_layers();
  problem.model.layers[0].frozen_bytes = 990;
  expect_memory(CostModel(problem).memory(2, 3, 4, 1), 870, 70 + 10, 120);
}

TEST(StageMemory, DecidesWhatFits) {
  Problem problem = three_layers();
  // Layers 0 and 1 with two micro-batches under way, and layer 2.
  problem.cluster.devices[0].memory_bytes = 1500 + 1100 + 240;
  problem.cluster.devices[1].memory_bytes = 870 + 870 + 120;
  const Plan plan{{{{0, 1}, {2}, 16}}, 4};
  EXPECT_TRUE(CostModel(problem).check(plan).ok());
  EXPECT_EQ(CostModel(problem).terms(plan.replicas[0], 4).time.most_samples, ReplicaTime{}.most_samples);
  for (Device& device : problem.cluster.devices) {
    --device.memory_bytes;
    EXPECT_FALSE(CostModel(problem).check(plan).ok());
    EXPECT_LT(CostModel(problem).terms(plan.replicas[0], 4).time.most_samples, 16);
    ++device.memory_bytes;
  }
}

TEST(StageTime, HasAFixedPartOfEachMicroBatch) {
  const Problem problem = three_layers();
  const CostModel model(problem);
  EXPECT_DOUBLE_EQ(model.compute_ms(0, 0, 3, 4), 3 + 1 + 4 * 12);
  // A slow device's own overhead is not scaled.
  EXPECT_DOUBLE_EQ(model.compute_ms(1, 1, 3, 4), 7 + 2 * (3 + 1 + 4 * 10));
}

TEST(StageMemory, ADeviceWithTheWholeModelHasTheGradientsOfAMicroBatchBesideTheirSum) {
  Problem problem = three_layers();
  problem.model.layers[0].working_fixed_bytes = 100;
  // The activations of the layers behind the first are free by then.
  EXPECT_EQ(CostModel(problem).memory(0, 3, 4, 1).working, 1170 - 4 * (20 + 30));
  EXPECT_EQ(CostModel(problem).memory(0, 3, 16, 1).working, 800);  // one micro-batch is the whole batch
  EXPECT_EQ(CostModel(problem).memory(0, 2, 4, 1).working, 800 + 100 - 4 * 20);
}

TEST(StageMemory, EachMicroBatchKeepsWhatDoesNotGrowWithItsSamples) {
  Problem problem = three_layers();
  problem.model.layers[0].activation_fixed_bytes = 1000;
  problem.model.layers[1].activation_fixed_bytes = 500;
  expect_memory(CostModel(problem).memory(0, 2, 4, 2), 1500, 1000 + 100, 2 * (4 * (10 + 20) + 1500));
  expect_memory(CostModel(problem).memory(0, 2, 1, 3), 1500, 1000 + 100, 3 * (10 + 20 + 1500));
  expect_memory(CostModel(problem).memory(1, 2, 4, 2), 500, 100, 2 * (4 * 20 + 500));
  // The layer's backward pass frees the memory.
  problem.model.layers[2].activation_fixed_bytes = 30;
  problem.model.layers[0].working_fixed_bytes = 700;
  EXPECT_EQ(CostModel(problem).memory(0, 3, 4, 1).working,
            800 + 70 - (4 * 30 + 30) + 100 - (4 * 20 + 500) + 700);
}

TEST(StageMemory, GradientsOfAWholeModelComeWhileItsActivationsGo) {
  Problem problem = three_layers();
  problem.model.layers[2].working_fixed_bytes = 100;
  problem.model.layers[1].activation_bytes = problem.model.layers[2].activation_bytes = 10'000;
  // The last layer's pass has the most: all activations are still there.
  EXPECT_EQ(CostModel(problem).memory(0, 3, 4, 1).working, 800 + 100);
}

TEST(StageTime, IsOnTheLinesBetweenMeasuredSizes) {
  Problem problem = three_layers();
  problem.model.layers[0].measured = {{2, 10}, {4, 11}, {8, 30}};
  const CostModel model(problem);
  const auto ms = [&](std::int64_t u) { return model.compute_ms(0, 0, 1, u); };
  EXPECT_DOUBLE_EQ(ms(1), 9.5);
  EXPECT_DOUBLE_EQ(ms(4), 11);
  EXPECT_DOUBLE_EQ(ms(6), 20.5);
  EXPECT_DOUBLE_EQ(ms(10), 30 + 2 * 2);  // a sample more is work_ms
  EXPECT_DOUBLE_EQ(model.compute_ms(1, 0, 2, 4), 7 + 2 * (11 + 3 + 4 * 4));
}

TEST(StageTime, HasTheOverheadOfAWholeModelOrOfAStage) {
  Problem problem = three_layers();
  problem.model.step_overhead = {{4, 0.5}};
  problem.model.stage_overhead = {{4, 3.5}};
  const CostModel model(problem);
  EXPECT_DOUBLE_EQ(model.compute_ms(0, 0, 3, 4), 3 + 1 + 4 * 12 + 0.5);
  EXPECT_DOUBLE_EQ(model.compute_ms(0, 0, 1, 4), 4 * 2 + 3.5);
  EXPECT_DOUBLE_EQ(model.compute_ms(1, 2, 3, 4), 7 + 2 * (1 + 4 * 6 + 3.5));
}

TEST(StageTime, HasTheUsualOverheadIfNoneIsMeasuredOrSaid) {
  Problem problem = three_layers();
  problem.cluster.usual_overhead_ms = 0.25;
  EXPECT_DOUBLE_EQ(CostModel(problem).compute_ms(0, 0, 1, 4), 4 * 2 + 0.25);
  EXPECT_DOUBLE_EQ(CostModel(problem).compute_ms(1, 0, 1, 4), 7 + 2 * 4 * 2);
  problem.model.stage_overhead = {{4, 3.5}};
  EXPECT_DOUBLE_EQ(CostModel(problem).compute_ms(0, 0, 1, 4), 4 * 2 + 3.5);
}

TEST(Synchronizing, TakesAsLongAsMeasuredUpdatesOnOneHost) {
  Problem problem = three_layers();
  problem.model.update_ms = 8;
  for (Device& device : problem.cluster.devices) device.servers = {0.5, 10};
  const Plan plan{{{{0, 1}, {2}, 16}}, 4};
  EXPECT_DOUBLE_EQ(CostModel(problem).forecast(plan).sync_ms, 2 * 1100 / 10.0 + 1);
  problem.cluster.on_one_host = true;
  EXPECT_DOUBLE_EQ(CostModel(problem).forecast(plan).sync_ms, 2 * 0.5 + 8);
}

TEST(Synchronizing, IsOfTrainedWeightsAlone) {
  Problem problem = three_layers();
  for (Device& device : problem.cluster.devices) device.servers = {0, 10};
  const Plan plan{{{{0, 1}, {2}, 16}}, 4};
  EXPECT_DOUBLE_EQ(CostModel(problem).forecast(plan).sync_ms, 2 * 1100 / 10.0);
}

}  // namespace
}  // namespace paceline::planner

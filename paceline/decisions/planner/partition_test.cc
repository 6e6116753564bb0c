// The two ways to cut a pipeline against every way to cut it.
#include "paceline/decisions/planner/partition.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "paceline/decisions/planner/shared_stages.h"
#include "paceline/decisions/planner/testing/every_plan.h"
#include "paceline/decisions/planner/testing/random_problem.h"

namespace paceline::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Visits all cuts of devices that share stages as in `like`.
void every_cuts(std::int32_t layers, const PlannedReplica& like,
                const std::function<void(const Cuts&)>& visit) {
  Cuts cuts(like.devices.size() - 1);
  const std::function<void(std::size_t)> place = [&](std::size_t c) {
    if (c == cuts.size()) return visit(cuts);
    const std::int32_t before = c == 0 ? 0 : cuts[c - 1];
    if (shares_with_the_one_before(like, c + 1)) {
      cuts[c] = before;
      return place(c + 1);
    }
    for (std::int32_t at = before + 1; at < layers; ++at) {
      cuts[c] = at;
      place(c + 1);
    }
  };
  place(0);
}

bool fits(const CostModel& model, const PlannedReplica& replica, std::int64_t u, std::int64_t micro_batches) {
  return model.terms(replica, u).time.most_samples >=
         std::min<std::int64_t>(micro_batches * u, model.problem().batch);
}

double largest_part(const CostModel& model, const PlannedReplica& replica, std::int64_t u) {
  Plan plan{{replica}, u};
  const ReplicaForecast forecast = model.forecast(plan).replicas[0];
  const std::vector<PlannedStage> stages = stages_of(replica, model.problem().layers());
  double largest = 0;
  for (const PlannedStage& stage : stages) {
    for (std::size_t d = stage.first; d < stage.first + stage.width; ++d)
      largest = std::max(largest, forecast.device_ms[d] / double(stage.width));
  }
  for (std::size_t s = 0; s + 1 < stages.size(); ++s)
    largest = std::max(largest, forecast.link_ms[s] / double(std::min(stages[s].width, stages[s + 1].width)));
  return largest;
}

struct Expected {
  double balanced = kInfinite;
  double best = kInfinite;
};

double total(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
             std::int64_t micro_batches) {
  const ReplicaTime time = model.terms(replica, u).time;
  return time.alpha_ms + time.beta_ms * static_cast<double>(micro_batches);
}

TEST(Partition, AgreesWithEveryCutting) {
  Rng rng(1);
  int impossible = 0, not_balanced = 0, shared = 0;
  for (int i = 0; i < 3000; ++i) {
    testing::ProblemShape shape{1, 5, 1, 9, 64};
    if (i % 3 == 0) shape.least_memory = 0.1, shape.most_memory = 1.5;
    const Problem problem = testing::random_problem(rng, shape);
    const CostModel model(problem);
    std::vector<std::int32_t> devices(problem.cluster.devices.size());
    std::iota(devices.begin(), devices.end(), 0);
    PlannedReplica uncut_replica = uncut(devices);
    if (i % 2 == 0) {
      for (std::size_t c = 0; c < uncut_replica.cuts.size(); ++c) {
        const std::int32_t before = c == 0 ? 0 : uncut_replica.cuts[c - 1];
        uncut_replica.cuts[c] = before + static_cast<std::int32_t>(rng.below(2));
      }
    }
    const std::vector<PlannedStage> stages = stages_of(uncut_replica, problem.layers());
    const bool all_in_one = stages.size() == 1 && devices.size() > 1;
    shared += stages.size() > 1 && stages.size() < devices.size() ? 1 : 0;
    const std::int64_t u = problem.micro_batches[rng.below(problem.micro_batches.size())];
    const std::int64_t count =
        1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(problem.batch / u)));
    Expected expected;
    every_cuts(problem.layers(), uncut_replica, [&](const Cuts& cuts) {
      const PlannedReplica replica{devices, cuts, 0};
      if (all_in_one || !fits(model, replica, u, count)) return;
      expected.balanced = std::min(expected.balanced, largest_part(model, replica, u));
      expected.best = std::min(expected.best, total(model, replica, u, count));
    });
    const auto balanced = balanced_cuts(model, uncut_replica, u, count);
    const auto best = best_cuts(model, uncut_replica, u, count);
    ASSERT_EQ(balanced.has_value(), expected.best < kInfinite) << i;
    ASSERT_EQ(best.has_value(), expected.best < kInfinite) << i;
    if (!best) {
      ++impossible;
      continue;
    }
    ASSERT_TRUE(fits(model, {devices, *best, 0}, u, count) && fits(model, {devices, *balanced, 0}, u, count))
        << i;
    ASSERT_NEAR(largest_part(model, {devices, *balanced, 0}, u), expected.balanced, 1e-9) << i;
    ASSERT_NEAR(total(model, {devices, *best, 0}, u, count), expected.best, 1e-6 * expected.best) << i;
    if (*best != *balanced) ++not_balanced;
  }
  EXPECT_GT(impossible, 100);
  EXPECT_GT(not_balanced, 100);
  EXPECT_GT(shared, 300);
}

TEST(Partition, MoreStagesThanLayersCannotBe) {
  Rng rng(2);
  const Problem problem = testing::random_problem(rng, {3, 3, 2, 2});
  EXPECT_EQ(best_cuts(CostModel(problem), uncut({0, 1, 2}), 1, 1), std::nullopt);
  EXPECT_EQ(balanced_cuts(CostModel(problem), uncut({0, 1, 2}), 1, 1), std::nullopt);
  EXPECT_EQ(best_cuts(CostModel(problem), {{0, 1, 2}, {0, 1}, 0}, 1, 1), (Cuts{0, 1}));
  EXPECT_EQ(best_cuts(CostModel(problem), {{0, 1, 2}, {0, 0}, 0}, 1, 1), std::nullopt);
}

// PipeDream's dynamic program, for equal machines and links: no sharing and cutting has a smaller largest
// part.
TEST(SharedStages, AgreesWithEverySharing) {
  Rng rng(3);
  int several = 0, with_shared = 0;
  for (int i = 0; i < 300; ++i) {
    const testing::ProblemShape shape{2, 5, 2, 7, 64};
    Problem problem = testing::random_problem(rng, shape);
    for (Device& device : problem.cluster.devices) {
      device.speed = 1;
      device.layer_ms.clear();
      device.overhead_ms = 0;
      device.memory_bytes = Device::kNoLimit;
    }
    std::fill(problem.cluster.links.begin(), problem.cluster.links.end(), problem.cluster.links[1]);
    const CostModel model(problem);
    std::vector<std::int32_t> devices(problem.cluster.devices.size());
    std::iota(devices.begin(), devices.end(), 0);
    const std::int64_t u = problem.micro_batches[rng.below(problem.micro_batches.size())];
    const auto largest = [&](const PlannedReplica& replica) {
      const ReplicaForecast forecast = model.forecast({{replica}, u}).replicas[0];
      double most = 0;
      for (const PlannedStage& stage : stages_of(replica, problem.layers()))
        most = std::max(most, forecast.device_ms[stage.first] / double(stage.width));
      for (const double ms : forecast.link_ms) most = std::max(most, ms);
      return most;
    };
    double best = kInfinite;
    testing::every_cutting(problem, {{{devices, {}, problem.batch}}, u}, 0, [&](const Plan& plan) {
      if (model.check(plan).ok()) best = std::min(best, largest(plan.replicas[0]));
    });
    const auto found = shared_stages(model, devices, u);
    ASSERT_EQ(found.has_value(), best < kInfinite) << i;
    if (!found) continue;
    ASSERT_TRUE(model.check({{*found}, u}).ok()) << i << model.check({{*found}, u});
    EXPECT_NEAR(largest(*found), best, 1e-9 * best) << i;
    ++several;
    with_shared += stages_of(*found, problem.layers()).size() < devices.size() ? 1 : 0;
  }
  EXPECT_GT(several, 200);
  EXPECT_GT(with_shared, 100);
}

}  // namespace
}  // namespace paceline::planner

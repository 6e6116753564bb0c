// The two ways to cut a pipeline against every way to cut it.
#include "paceline/planner/partition.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "paceline/planner/testing/random_problem.h"

namespace paceline::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void every_cuts(std::int32_t layers, std::size_t stages, const std::function<void(const Cuts&)>& visit) {
  Cuts cuts(stages - 1);
  const std::function<void(std::size_t, std::int32_t)> place = [&](std::size_t s, std::int32_t least) {
    if (s == cuts.size()) return visit(cuts);
    for (cuts[s] = least; cuts[s] < layers; ++cuts[s]) place(s + 1, cuts[s] + 1);
  };
  place(0, 1);
}

bool fits(const CostModel& model, const PlannedReplica& replica, std::int64_t u, std::int64_t micro_batches) {
  return model.terms(replica, u).time.most_samples >=
         std::min<std::int64_t>(micro_batches * u, model.problem().batch);
}

double largest_part(const CostModel& model, const PlannedReplica& replica, std::int64_t u) {
  Plan plan{{replica}, u};
  const ReplicaForecast forecast = model.forecast(plan).replicas[0];
  double largest = *std::max_element(forecast.stage_ms.begin(), forecast.stage_ms.end());
  for (const double ms : forecast.link_ms) largest = std::max(largest, ms);
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
  int impossible = 0, not_balanced = 0;
  for (int i = 0; i < 3000; ++i) {
    testing::ProblemShape shape{1, 5, 1, 9, 64};
    if (i % 3 == 0) shape.least_memory = 0.1, shape.most_memory = 1.5;
    const Problem problem = testing::random_problem(rng, shape);
    const CostModel model(problem);
    std::vector<std::int32_t> devices(problem.cluster.devices.size());
    std::iota(devices.begin(), devices.end(), 0);
    const std::int64_t u = problem.micro_batches[rng.below(problem.micro_batches.size())];
    const std::int64_t count =
        1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(problem.batch / u)));
    Expected expected;
    every_cuts(problem.layers(), devices.size(), [&](const Cuts& cuts) {
      const PlannedReplica replica{devices, cuts, 0};
      if (!fits(model, replica, u, count)) return;
      expected.balanced = std::min(expected.balanced, largest_part(model, replica, u));
      expected.best = std::min(expected.best, total(model, replica, u, count));
    });
    const auto balanced = balanced_cuts(model, devices, u, count);
    const auto best = best_cuts(model, devices, u, count);
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
}

TEST(Partition, MoreDevicesThanLayersCannotBe) {
  Rng rng(2);
  const Problem problem = testing::random_problem(rng, {3, 3, 2, 2});
  EXPECT_EQ(best_cuts(CostModel(problem), {0, 1, 2}, 1, 1), std::nullopt);
  EXPECT_EQ(balanced_cuts(CostModel(problem), {0, 1, 2}, 1, 1), std::nullopt);
}

}  // namespace
}  // namespace paceline::planner

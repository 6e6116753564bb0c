// Planned trainings through traces: what must come out beside the baselines, and that it is always the same.
#include "paceline/simulation/sim/planned_run.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"

namespace paceline::sim {
namespace {

config::ClusterFile example(const std::string& name) {
  std::ifstream in("examples/plan/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return config::parse_cluster(text.str(), name).value();
}

const PlannedRun& named(const std::vector<PlannedRun>& runs, const std::string& name) {
  return *std::find_if(runs.begin(), runs.end(), [&](const PlannedRun& run) { return run.name == name; });
}

double mean_ms(const PlannedRun& run) { return run.elapsed_ms / static_cast<double>(run.batches); }

TEST(PlannedRun, TheSameFileGivesTheSameNumbers) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  config::ClusterFile file = example("spot-prices.toml");
  file.batches = 300;
  const auto first = run_planned(file), second = run_planned(file);
  ASSERT_TRUE(first.ok() && second.ok());
  for (std::size_t i = 0; i < first->size(); ++i) {
    EXPECT_EQ((*first)[i].elapsed_ms, (*second)[i].elapsed_ms);
    EXPECT_EQ((*first)[i].costs, (*second)[i].costs);
    EXPECT_EQ((*first)[i].migrations, (*second)[i].migrations);
  }
}

TEST(PlannedRun, KeepsItsBudgetWherePricesChange) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  const config::ClusterFile file = example("spot-prices.toml");
  const auto runs = run_planned(file);
  ASSERT_TRUE(runs.ok()) << runs.status();
  const PlannedRun& ours = runs->front();
  ASSERT_TRUE(ours.ended.ok()) << ours.ended;
  EXPECT_EQ(ours.batches, file.batches);
  EXPECT_LE(ours.costs[0] / (ours.elapsed_ms / 1000), file.problem.budgets[0].most * 1.02);
  EXPECT_LT(ours.predicted_error, 0.1);
  // No method that keeps to a plan is as fast, although it does not look at the budget.
  for (const char* name : {"bsp", "gpipe", "pipedream", "hetpipe", "frozen"})
    EXPECT_LT(mean_ms(ours), mean_ms(named(*runs, name))) << name;
}

TEST(PlannedRun, FasterThanEveryBaselineWhereSpeedsChange) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  config::ClusterFile file = example("too-large-for-one.toml");
  file.batches = 600;
  file.jitter = 0.05;
  file.noise = 0.05;
  file.planner.emplace();
  file.changes = {{100, config::ClusterEvent::kSpeed, 0, 0, 0.7},
                  {500, config::ClusterEvent::kSpeed, 2, 0, 0.4}};
  const auto runs = run_planned(file);
  ASSERT_TRUE(runs.ok()) << runs.status();
  for (const PlannedRun& run : *runs) {
    if (run.name == "paceline" || run.batches == 0) continue;
    EXPECT_LT(mean_ms(runs->front()), mean_ms(run)) << run.name;
  }
  EXPECT_FALSE(named(*runs, "bsp").ended.ok());  // no device holds the model
}

TEST(PlannedRun, EndsWhereTheModelHasNoPlaceAnyMore) {
  config::ClusterFile file = example("too-large-for-one.toml");
  file.planner.emplace();
  for (std::int32_t n = 0; n < 5; ++n) file.changes.push_back({10, config::ClusterEvent::kLeave, n});
  const auto runs = run_planned(file);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_TRUE(absl::IsResourceExhausted(runs->front().ended)) << runs->front().ended;
  // The one that ended it is one of them.
  ASSERT_GT(runs->front().batches, 0);
  EXPECT_GE(runs->front().elapsed_ms, 10'000);
  EXPECT_LT(runs->front().elapsed_ms / static_cast<double>(runs->front().batches), 10'000);
}

}  // namespace
}  // namespace paceline::sim

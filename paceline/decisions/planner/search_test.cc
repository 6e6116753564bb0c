// The search against every plan of tiny clusters, and what must hold of its plans on random larger ones.
#include "paceline/decisions/planner/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/decisions/planner/baselines.h"
#include "paceline/decisions/planner/enumeration.h"
#include "paceline/decisions/planner/partition.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/decisions/planner/testing/every_plan.h"
#include "paceline/decisions/planner/testing/random_problem.h"

namespace paceline::planner {
namespace {

TEST(Search, FindsTheBestOfAllPlansOfTinyClusters) {
  Rng rng(1);
  int impossible = 0, budgeted = 0;
  for (int i = 0; i < 120; ++i) {
    testing::ProblemShape shape{1, 3, 1, 4, 24};
    if (i % 2 == 0) shape.least_memory = 0.3, shape.most_memory = 2;
    Problem problem = testing::random_problem(rng, shape);
    const CostModel model(problem);
    const Evaluator evaluator(model, Goal::within_budgets());
    const auto free = make_plan(problem, {});
    if (i % 3 == 0 && free.ok()) {
      problem.budgets = {{static_cast<CostKind>(i % kCostKinds), 0, i % 2 == 0}};
      Budget& budget = problem.budgets[0];
      const double cost = free->found.evaluation.costs[budget.index()];
      budget.most =
          (0.5 + rng.uniform()) * (budget.per_second ? 1000 * cost / free->found.evaluation.batch_ms : cost);
      if (budget.most <= 0) problem.budgets.clear();
      budgeted += static_cast<int>(problem.budgets.size());
    }
    const Evaluation best = testing::best_of_every_plan(evaluator);
    const auto planned = make_plan(problem, {});
    if (!best.possible() || best.over > 0) {
      ++impossible;
      ASSERT_TRUE(absl::IsResourceExhausted(planned.status())) << i << planned.status();
      continue;
    }
    ASSERT_TRUE(planned.ok()) << i << planned.status();
    ASSERT_NEAR(planned->found.evaluation.batch_ms, best.batch_ms, 1e-9 * best.batch_ms) << i;
  }
  EXPECT_GT(impossible, 3);
  EXPECT_GT(budgeted, 10);
}

// The plan as text, its replicas in an order of their own.
std::string canonical(Plan plan) {
  std::sort(plan.replicas.begin(), plan.replicas.end(),
            [](const auto& a, const auto& b) { return a.devices < b.devices; });
  std::string text = fmt::format("{}", plan.micro_batch);
  for (const PlannedReplica& replica : plan.replicas)
    text += fmt::format(" {}|{}", fmt::join(replica.devices, ","), fmt::join(replica.cuts, ","));
  return text;
}

TEST(Enumeration, IsEveryPlanOnce) {
  Rng rng(6);
  for (int i = 0; i < 40; ++i) {
    const Problem problem = testing::random_problem(rng, {1, 4, 1, 5, 8});
    std::set<std::string> expected, found;
    std::size_t count = 0;
    testing::every_plan(problem, [&](const Plan& plan) { expected.insert(canonical(plan)); });
    for_each_plan(problem, [&](Plan& plan) { ++count, found.insert(canonical(plan)); });
    ASSERT_EQ(found, expected) << i;
    ASSERT_EQ(count, found.size()) << i;
    ASSERT_EQ(count_of_plans(problem), static_cast<double>(count)) << i;
  }
}

// For a cluster of any size the count shows at once whether the plans are few.
TEST(Enumeration, ManyDevicesHaveTooManyPlans) {
  Rng rng(7);
  for (const std::int32_t devices : {20, 128, 1000})
    EXPECT_GT(count_of_plans(testing::random_problem(rng, {devices, devices, 5, 5, 8})), 1e15) << devices;
}

// Tiny clusters once more, a device and two layers larger. bench/planner.cc looks at a hundred of them.
TEST(Search, FindsTheBestOfAllPlansOfSmallClusters) {
  Rng rng(7);
  int possible = 0;
  constexpr int kClusters = effort::kSanitized ? 10 : 40;
  for (int i = 0; i < kClusters; ++i) {
    testing::ProblemShape shape{4, 4, 4, 6, 64};
    if (i % 2 == 0) shape.least_memory = 0.3, shape.most_memory = 2;
    const Problem problem = testing::random_problem(rng, shape);
    const CostModel model(problem);
    const Evaluation best = testing::best_of_every_plan({model, Goal::within_budgets()});
    const auto planned = make_plan(problem, {});
    ASSERT_EQ(planned.ok(), best.possible()) << i << planned.status();
    if (!planned.ok()) continue;
    ++possible;
    EXPECT_NEAR(planned->found.evaluation.batch_ms, best.batch_ms, 1e-9 * best.batch_ms) << i;
  }
  EXPECT_GT(possible, kClusters * 3 / 4);
}

// Larger ones are walked through. Few samples: how a pipeline is cut depends on how many micro-batches it
// gets.
TEST(Search, TheWalkComesCloseToTheBest) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  Rng rng(4);
  int optimal = 0;
  constexpr int kClusters = 12;
  for (int i = 0; i < kClusters; ++i) {
    const Problem problem = testing::random_problem(rng, {5, 5, 8, 8, 4});
    const CostModel model(problem);
    const Evaluator evaluator(model, Goal::within_budgets());
    Evaluation best;
    for_each_plan(problem, [&](Plan& plan) {
      const Evaluation one = evaluator.assign(plan);
      if (one < best) best = one;
    });
    SearchOptions options;
    options.moves = 15'000;
    ASSERT_GT(count_of_plans(problem), 4.0 * static_cast<double>(options.moves));
    const auto planned = make_plan(problem, options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    const double regret = planned->found.evaluation.batch_ms / best.batch_ms - 1;
    EXPECT_LE(regret, 0.02) << i;
    optimal += regret < 1e-9 ? 1 : 0;
  }
  EXPECT_GE(optimal, kClusters - 1);
}

std::vector<std::int64_t> stages_chosen(const Problem& problem, const Plan& plan) {
  std::vector<std::int64_t> chosen{plan.micro_batch};
  for (const PlannedStage& stage : stages_of(plan.replicas[0], problem.layers()))
    chosen.push_back(static_cast<std::int64_t>(stage.width));
  return chosen;
}

// With the micro-batch and the stages that were chosen, no other cut of all devices takes less time before
// synchronizing.
TEST(OnePipeline, IsTheBestCutOfAllDevices) {
  int possible = 0, shared = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    const Problem problem = testing::random_problem(rng, {.least_devices = 2,
                                                          .most_devices = 4,
                                                          .least_layers = 4,
                                                          .most_layers = 7,
                                                          .most_batch = 16,
                                                          .least_memory = 0.2,
                                                          .most_memory = 1.2});
    const CostModel model(problem);
    std::vector<std::int32_t> devices(problem.cluster.devices.size());
    std::iota(devices.begin(), devices.end(), 0);
    std::map<std::vector<std::int64_t>, double> best_ms;  // indexed by micro-batch and widths of stages
    for (const std::int64_t u : problem.micro_batches) {
      testing::every_cutting(problem, {{{devices, {}, problem.batch}}, u}, 0, [&](const Plan& plan) {
        if (!model.check(plan).ok()) return;
        const double ms = model.forecast(plan).replicas[0].time_ms;
        double& best = best_ms.try_emplace(stages_chosen(problem, plan), ms).first->second;
        best = std::min(best, ms);
      });
    }
    const auto planned = plan_one_pipeline(problem);
    ASSERT_EQ(planned.ok(), !best_ms.empty()) << "seed " << seed;
    if (!planned.ok()) continue;
    ++possible;
    shared += stages_of(planned->found.plan.replicas[0], problem.layers()).size() < devices.size() ? 1 : 0;
    const Plan& plan = planned->found.plan;
    EXPECT_TRUE(model.check(plan).ok());
    EXPECT_NEAR(planned->forecast.replicas[0].time_ms, best_ms[stages_chosen(problem, plan)], 1e-9)
        << "seed " << seed;
  }
  EXPECT_GT(possible, 30);
  EXPECT_GT(shared, 5);
}

TEST(Search, PlansArePossibleAndNeverBehindABaseline) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  Rng rng(2);
  int possible = 0, faster = 0, optimistic = 0;
  for (int i = 0; i < 1000; ++i) {
    testing::ProblemShape shape{1, 10, 1, 20, 200};
    if (i % 2 == 0) shape.least_memory = 0.1, shape.most_memory = 1.5;
    const Problem problem = testing::random_problem(rng, shape);
    const CostModel model(problem);
    SearchOptions options;
    options.moves = 400;
    const auto planned = make_plan(problem, options);
    if (!planned.ok()) {
      ASSERT_TRUE(absl::IsResourceExhausted(planned.status())) << planned.status();
      ASSERT_NE(planned.status().message().find(" MB"), std::string::npos) << planned.status();
      continue;
    }
    ++possible;
    const Plan& plan = planned->found.plan;
    ASSERT_TRUE(model.check(plan).ok()) << i << model.check(plan);
    ASSERT_DOUBLE_EQ(planned->forecast.batch_ms, planned->found.evaluation.batch_ms);
    double best = Evaluation::kInfinite;
    for (const BaselineResult& baseline : planned->baselines) {
      if (!baseline.plan.ok()) continue;
      ASSERT_TRUE(model.check(*baseline.plan).ok()) << baseline.name << model.check(*baseline.plan);
      best = std::min(best, model.forecast(*baseline.plan).batch_ms);
    }
    ASSERT_LE(planned->forecast.batch_ms, best * (1 + 1e-9)) << i;
    if (planned->forecast.batch_ms < 0.95 * best) ++faster;
    // The closed form that is planned with is close to the exact schedule of the plan.
    ASSERT_LE(model.exact_batch_ms(plan), 1.2 * planned->forecast.batch_ms) << i;
    if (model.exact_batch_ms(plan) > 1.02 * planned->forecast.batch_ms) ++optimistic;
  }
  EXPECT_GT(possible, 700);
  EXPECT_GT(faster, 300);
  EXPECT_LT(optimistic, 20);
}

// The sum of the squares of the stages' works: least if their variance is least.
double squares(const std::vector<LayerProfile>& layers, const Cuts& cuts) {
  double sum = 0, stage = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (std::find(cuts.begin(), cuts.end(), static_cast<std::int32_t>(l)) != cuts.end()) {
      sum += stage * stage;
      stage = 0;
    }
    stage += layers[l].work_ms;
  }
  return sum + stage * stage;
}

// Against every choice of cuts; equal layers are one of them, and no better.
TEST(Baselines, GPipeCutsByLayersOrSoThatWorkIsMostAlike) {
  Rng rng(3);
  for (int i = 0; i < 50; ++i) {
    Problem problem = testing::random_problem(rng, {4, 4, 5, 8, 16});
    for (LayerProfile& layer : problem.model.layers) layer.work_ms = 1 + 9 * rng.uniform();
    for (Device& device : problem.cluster.devices) device.memory_bytes = Device::kNoLimit;
    const std::vector<Baseline> all = baselines(CostModel(problem));
    ASSERT_EQ(all[2].name, "gpipe");
    ASSERT_EQ(all[3].name, "gpipe-work");
    ASSERT_TRUE(all[2].plan.ok() && all[3].plan.ok()) << all[3].plan.status();
    const Cuts& by_layers = all[2].plan->replicas[0].cuts;
    const Cuts& by_work = all[3].plan->replicas[0].cuts;
    const std::int32_t n = problem.layers();
    EXPECT_EQ(by_layers, (Cuts{n / 4, 2 * n / 4, 3 * n / 4}));
    double least = squares(problem.model.layers, by_layers);
    for (std::int32_t a = 1; a < n; ++a) {
      for (std::int32_t b = a + 1; b < n; ++b) {
        for (std::int32_t c = b + 1; c < n; ++c)
          least = std::min(least, squares(problem.model.layers, {a, b, c}));
      }
    }
    EXPECT_NEAR(squares(problem.model.layers, by_work), least, 1e-9 * least);
  }
}

TEST(Search, TheSameSeedGivesTheSamePlan) {
  Rng rng(3);
  const Problem problem = testing::random_problem(rng, {8, 8, 12, 12, 128});
  const auto first = make_plan(problem, {}), second = make_plan(problem, {});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->found.plan, second->found.plan);
  EXPECT_EQ(first->found.accepted, second->found.accepted);
}

}  // namespace
}  // namespace paceline::planner

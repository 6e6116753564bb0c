// Lyapunov's promises: whatever is done the queues bound the violation, and planning by them comes as close
// to the best possible mean as V is large, with queues that grow with V.
#include "paceline/decisions/planner/queues.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/planner/linear_program.h"
#include "paceline/decisions/planner/testing/violation_bound.h"

namespace paceline::planner {
namespace {

constexpr std::size_t kMoney = static_cast<std::size_t>(CostKind::kMoney);

TEST(Queues, BoundTheViolationWhateverIsDone) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const std::vector<Budget> budgets = {{CostKind::kMoney, 1 + rng.uniform(), false},
                                         {CostKind::kEnergy, 5 + 10 * rng.uniform(), true}};
    QueueState queues = empty_queues(budgets, 50 + 100 * rng.uniform());
    double money = 0, energy = 0, seconds = 0;
    const int batches = 1 + static_cast<int>(rng.below(200));
    for (int t = 0; t < batches; ++t) {
      Costs costs{3 * rng.uniform(), 4 * rng.uniform(), 0};
      const double ms = 300 * rng.uniform();
      add_batch(queues, budgets, costs, ms);
      money += costs[0], energy += costs[1], seconds += ms / 1000;
    }
    ASSERT_LE(money / batches - budgets[0].most, violation_bound(queues, budgets, 0) + 1e-9);
    ASSERT_LE((energy - budgets[1].most * seconds) / batches, violation_bound(queues, budgets, 1) + 1e-9);
    ASSERT_EQ(queues.batches, batches);
  }
}

// One possible way to do a batch: how long it takes and what it costs.
struct Choice {
  double ms;
  double money;
};

struct Outcome {
  double mean_ms = 0;
  double mean_money = 0;
  double queue_max = 0;
  double bound = 0;
};

Outcome play_queues(const std::vector<Choice>& choices, const Budget& budget, double v, int batches) {
  const std::vector<Budget> budgets = {budget};
  QueueState queues = empty_queues(budgets, choices.front().ms);
  Outcome outcome;
  for (int t = 0; t < batches; ++t) {
    const auto cost = [&](const Choice& choice) {
      return v * choice.ms / queues.reference_ms + weight(queues, budgets, 0) * choice.money;
    };
    const auto best = std::min_element(choices.begin(), choices.end(),
                                       [&](const Choice& a, const Choice& b) { return cost(a) < cost(b); });
    Costs costs{};
    costs[kMoney] = best->money;
    add_batch(queues, budgets, costs, best->ms);
    outcome.mean_ms += best->ms / batches;
    outcome.mean_money += best->money / batches;
    outcome.queue_max = std::max(outcome.queue_max, queues.lengths[0]);
  }
  outcome.bound = violation_bound(queues, budgets, 0);
  return outcome;
}

// The best mean time of any mixture that keeps the budget.
double best_mean(const std::vector<Choice>& choices, const Budget& budget) {
  LinearProgram program;
  LinearRow whole{{}, 1, 1}, money{{}, -kUnbounded, budget.most};
  for (const Choice& choice : choices) {
    program.variables.push_back({choice.ms, 0, 1});
    whole.weights.push_back(1);
    money.weights.push_back(choice.money);
  }
  program.rows = {whole, money};
  return solve(program)->value;
}

TEST(Queues, TheGapShrinksAndTheQueuesGrowWithV) {
  // From dear and fast to cheap and slow; only mixtures meet the budget exactly.
  const std::vector<Choice> choices = {{100, 10}, {130, 7}, {190, 4}, {400, 1.5}};
  const Budget budget{CostKind::kMoney, 5.1, false};
  const double best = best_mean(choices, budget);
  constexpr int kBatches = 200'000;
  double last_queue = 0;
  for (const double v : {1.0, 4.0, 16.0, 64.0, 256.0}) {
    const Outcome outcome = play_queues(choices, budget, v, kBatches);
    EXPECT_LE(outcome.mean_money, budget.most + outcome.bound + 1e-9) << v;
    EXPECT_LE(outcome.mean_money, budget.most * 1.01) << v;
    // O(1/V): half of the most a batch adds to a queue, squared, over V (Neely 2010, theorem 4.8).
    const double drift = 0.5 * std::pow(10 / 5.1 - 1, 2) * 100;
    EXPECT_LE(outcome.mean_ms - best, drift / v + 0.1) << v;
    EXPECT_GE(outcome.queue_max, last_queue) << v;
    EXPECT_LE(outcome.queue_max, 3 + 1.1 * v) << v;
    last_queue = outcome.queue_max;
  }
  EXPECT_GT(last_queue, 50);
  EXPECT_LT(play_queues(choices, budget, 256, kBatches).mean_ms - best,
            play_queues(choices, budget, 1, kBatches).mean_ms - best + 1e-9);
}

}  // namespace
}  // namespace paceline::planner

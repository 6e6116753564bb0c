// How good a plan is for a goal: it assigns the plan's samples as well as possible (data_assignment.h) and
// weighs time against costs. Pure; the search and the decisions during a run share it.
#pragma once

#include <limits>
#include <vector>

#include "paceline/decisions/planner/cost_model.h"
#include "paceline/decisions/planner/queues.h"

namespace paceline::planner {

// The goal. Without weights each batch has to keep every budget, and the fastest plan of those that do (or
// come closest) is best. With weights: least V·τ + Σ Q_k·c_k.
struct Goal {
  double time_cost = 1;  // V, cost of a millisecond; > 0
  // one for each budget: the weight of a unit of its cost; empty: budgets are limits
  std::vector<double> weights;

  static Goal within_budgets() { return {}; }
  // V without a unit, as queues.h counts.
  static Goal weighed(const QueueState& queues, const std::vector<Budget>& budgets, double v);
};

struct Evaluation {
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double over = kInfinite;   // Σ of the shares by which limits are broken; infinite: the plan is impossible
  double score = kInfinite;  // the value to minimise
  double batch_ms = kInfinite;
  Costs costs{};

  bool possible() const { return over < kInfinite; }
  // Compares the limits first, then the score.
  friend bool operator<(const Evaluation& a, const Evaluation& b) {
    return a.over != b.over ? a.over < b.over : a.score < b.score;
  }
};

class Evaluator {
 public:
  // Keeps a reference to the model.
  Evaluator(const CostModel& model, Goal goal) : model_(model), goal_(std::move(goal)) {}

  const CostModel& model() const { return model_; }
  const Problem& problem() const { return model_.problem(); }
  // Sets the replicas' samples. Replicas that get none are taken out of the plan unless `keep_all`. The
  // devices and cuts must be possible but for memory, which is looked at here.
  Evaluation assign(Plan& plan, bool keep_all = false) const;
  // Weighs the plan with the samples that it has.
  Evaluation weigh(const Plan& plan) const;
  // V·τ + Σ Q_k·c_k of a batch that took and cost this.
  double score(double batch_ms, const Costs& costs) const;

 private:
  Evaluation weigh(const Plan& plan, const std::vector<ReplicaTerms>& terms) const;
  DataProblem data_problem(const std::vector<ReplicaTerms>& terms, std::int64_t u) const;

  const CostModel& model_;
  Goal goal_;
};

}  // namespace paceline::planner

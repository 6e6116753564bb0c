#include "paceline/decisions/planner/evaluator.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::planner {

namespace {

// If a plan is cheaper per second than its budget, slowness looks like a gain. No slower plan is wanted for
// its own sake, so time keeps at least this share of its weight.
constexpr double kLeastTimeShare = 1e-3;
constexpr double kMsPerSecond = 1000;

double total_per_ms(const std::vector<ReplicaTerms>& terms, std::size_t kind) {
  double sum = 0;
  for (const ReplicaTerms& term : terms) sum += term.per_ms[kind];
  return sum;
}

double push_ms(const CostModel& model, const std::vector<ReplicaTerms>& terms) {
  double slowest = 0;
  std::int64_t bytes = 0;
  for (const ReplicaTerms& term : terms) {
    slowest = std::max(slowest, term.push_ms);
    bytes += term.pushed_bytes;
  }
  return model.sync_ms(slowest, bytes);
}

// Each budget as a limit on the data: what does not depend on it is taken off.
std::vector<DataLimit> limits_of(const Problem& problem, const std::vector<ReplicaTerms>& terms,
                                 double sync_ms) {
  std::vector<DataLimit> limits;
  for (const Budget& budget : problem.budgets) {
    const std::size_t kind = budget.index();
    DataLimit limit;
    const double allowed_per_ms = budget.per_second ? budget.most / kMsPerSecond : 0;
    limit.per_ms = total_per_ms(terms, kind) - allowed_per_ms;
    limit.most = (budget.per_second ? 0 : budget.most) - limit.per_ms * sync_ms;
    for (const ReplicaTerms& term : terms) {
      limit.per_sample.push_back(term.per_sample[kind]);
      limit.most -= term.fixed[kind];
    }
    limits.push_back(std::move(limit));
  }
  return limits;
}

// Whether another assignment of the data could change what the budgets hold.
bool depends_on_data(const Problem& problem, const std::vector<ReplicaTerms>& terms) {
  for (const Budget& budget : problem.budgets) {
    for (const ReplicaTerms& term : terms) {
      if (term.per_sample[budget.index()] != terms.front().per_sample[budget.index()]) return true;
    }
  }
  return false;
}

void give(Plan& plan, const DataAssignment& assignment) {
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) plan.replicas[g].samples = assignment.samples[g];
}

}  // namespace

Goal Goal::weighed(const QueueState& queues, const std::vector<Budget>& budgets, double v) {
  Goal goal{v / queues.reference_ms, {}};
  for (std::size_t k = 0; k < budgets.size(); ++k) goal.weights.push_back(weight(queues, budgets, k));
  return goal;
}

DataProblem Evaluator::data_problem(const std::vector<ReplicaTerms>& terms, std::int64_t u) const {
  DataProblem data{{}, problem().batch, u, goal_.time_cost};
  for (const ReplicaTerms& term : terms) data.replicas.push_back(term.time);
  for (std::size_t k = 0; k < goal_.weights.size(); ++k) {
    const Budget& budget = problem().budgets[k];
    const double allowed_per_ms = budget.per_second ? budget.most / kMsPerSecond : 0;
    data.time_cost += goal_.weights[k] * (total_per_ms(terms, budget.index()) - allowed_per_ms);
    for (std::size_t g = 0; g < terms.size(); ++g)
      data.replicas[g].sample_cost += goal_.weights[k] * terms[g].per_sample[budget.index()];
  }
  data.time_cost = std::max(data.time_cost, kLeastTimeShare * goal_.time_cost);
  return data;
}

double Evaluator::score(double batch_ms, const Costs& costs) const {
  double per_second = goal_.time_cost * batch_ms, per_batch = 0;
  for (std::size_t k = 0; k < goal_.weights.size(); ++k) {
    const Budget& budget = problem().budgets[k];
    if (budget.per_second) {
      per_second += goal_.weights[k] * (costs[budget.index()] - budget.allowed(batch_ms));
    } else {
      per_batch += goal_.weights[k] * costs[budget.index()];
    }
  }
  return std::max(per_second, kLeastTimeShare * goal_.time_cost * batch_ms) + per_batch;
}

Evaluation Evaluator::weigh(const Plan& plan, const std::vector<ReplicaTerms>& terms) const {
  Evaluation result;
  double slowest = 0;
  for (std::size_t g = 0; g < terms.size(); ++g) {
    const std::int64_t samples = plan.replicas[g].samples;
    if (samples > terms[g].time.most_samples) return {};
    const std::int64_t count = (samples + plan.micro_batch - 1) / plan.micro_batch;
    if (samples > 0)
      slowest =
          std::max(slowest, terms[g].time.alpha_ms + terms[g].time.beta_ms * static_cast<double>(count));
    for (std::size_t k = 0; k < kCostKinds; ++k)
      result.costs[k] += terms[g].fixed[k] + terms[g].per_sample[k] * static_cast<double>(samples);
  }
  result.batch_ms = slowest + push_ms(model_, terms);
  for (std::size_t k = 0; k < kCostKinds; ++k) result.costs[k] += total_per_ms(terms, k) * result.batch_ms;
  result.over = 0;
  if (goal_.weights.empty()) {
    for (const Budget& budget : problem().budgets) {
      const double share = result.costs[budget.index()] / budget.allowed(result.batch_ms) - 1;
      if (share > 1e-9) result.over += share;
    }
  }
  result.score = score(result.batch_ms, result.costs);
  return result;
}

Evaluation Evaluator::weigh(const Plan& plan) const {
  std::vector<ReplicaTerms> terms;
  for (const PlannedReplica& replica : plan.replicas)
    terms.push_back(model_.terms(replica, plan.micro_batch));
  return weigh(plan, terms);
}

Evaluation Evaluator::assign(Plan& plan, bool keep_all) const {
  std::vector<ReplicaTerms> terms;
  terms.reserve(plan.replicas.size());
  for (const PlannedReplica& replica : plan.replicas) {
    terms.push_back(model_.terms(replica, plan.micro_batch));
    if (terms.back().time.most_samples == 0) return {};
  }
  DataProblem data = data_problem(terms, plan.micro_batch);
  const auto fastest = assign_samples(data);
  if (!fastest.ok()) return {};
  give(plan, *fastest);
  Evaluation result = weigh(plan, terms);
  if (result.over > 0 && depends_on_data(problem(), terms)) {
    data.limits = limits_of(problem(), terms, push_ms(model_, terms));
    auto kept = assign_samples(data);
    if (!kept.ok()) {
      // Nothing keeps them all: then as cheap as can be, each budget in its own measure.
      DataProblem cheap = data_problem(terms, plan.micro_batch);
      for (const Budget& budget : problem().budgets) {
        for (std::size_t g = 0; g < terms.size(); ++g)
          cheap.replicas[g].sample_cost +=
              terms[g].per_sample[budget.index()] / budget.allowed(result.batch_ms);
      }
      cheap.time_cost = 1e-6 / result.batch_ms;
      kept = assign_samples(cheap);
    }
    Plan other = plan;
    give(other, *kept);
    const Evaluation cheaper = weigh(other, terms);
    if (cheaper < result) result = cheaper, plan = std::move(other);
  }
  const auto idle = [](const PlannedReplica& replica) { return replica.samples == 0; };
  if (keep_all || std::none_of(plan.replicas.begin(), plan.replicas.end(), idle)) return result;
  std::erase_if(plan.replicas, idle);
  return weigh(plan);
}

}  // namespace paceline::planner

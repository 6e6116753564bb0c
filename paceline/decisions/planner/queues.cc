#include "paceline/decisions/planner/queues.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::planner {

namespace {
// The budget of one batch of the reference's length.
double unit(const QueueState& state, const Budget& budget) { return budget.allowed(state.reference_ms); }
}  // namespace

QueueState empty_queues(const std::vector<Budget>& budgets, double reference_ms) {
  PACELINE_CHECK(reference_ms > 0, "a batch of {} ms", reference_ms);
  return {reference_ms, std::vector<double>(budgets.size()), 0};
}

void add_batch(QueueState& state, const std::vector<Budget>& budgets, const Costs& costs, double batch_ms) {
  for (std::size_t k = 0; k < budgets.size(); ++k) {
    const double over = costs[budgets[k].index()] - budgets[k].allowed(batch_ms);
    state.lengths[k] = std::max(0.0, state.lengths[k] + over / unit(state, budgets[k]));
  }
  ++state.batches;
}

double weight(const QueueState& state, const std::vector<Budget>& budgets, std::size_t k) {
  return state.lengths[k] / unit(state, budgets[k]);
}

}  // namespace paceline::planner

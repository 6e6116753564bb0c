// The promise of Lyapunov's queues, for tests to compare runs with.
#pragma once

#include <vector>

#include "paceline/decisions/planner/queues.h"

namespace paceline::planner {

// The most that the mean of the k-th cost can have been over its budget so far: Q_k/T; 0 before the first
// batch.
inline double violation_bound(const QueueState& state, const std::vector<Budget>& budgets, std::size_t k) {
  if (state.batches == 0) return 0;
  return state.lengths[k] * budgets[k].allowed(state.reference_ms) / static_cast<double>(state.batches);
}

}  // namespace paceline::planner

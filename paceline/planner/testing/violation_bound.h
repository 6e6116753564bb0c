// What Lyapunov's queues promise, to hold runs against.
#pragma once

#include <vector>

#include "paceline/planner/queues.h"

namespace paceline::planner {

// By how much at most the mean of the k-th cost has been over its budget so far: Q_k/T; 0 before the first
// batch.
inline double violation_bound(const QueueState& state, const std::vector<Budget>& budgets, std::size_t k) {
  if (state.batches == 0) return 0;
  return state.lengths[k] * budgets[k].allowed(state.reference_ms) / static_cast<double>(state.batches);
}

}  // namespace paceline::planner

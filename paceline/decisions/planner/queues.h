// Lyapunov's virtual queues (JDMP): the accumulated overspend of each budget. Plain state, so that it can be
// written to a checkpoint, and pure functions on it.
//
// After each batch  Q_k ← max(Q_k + c_k − C_k, 0), with C_k·τ in place of C_k for a budget per second; and
// each batch is planned to minimise V·τ + Σ Q_k·c_k (for a budget per second Q_k·(c_k − C_k·τ)). Under any
// plans
//   mean of c_k over T batches − C_k ≤ Q_k(T)/T.
// With V the gap to the best possible mean time is O(1/V) and the queues are O(V).
//
// Here a queue is counted in batches of budget (Q_k over what C_k allows a batch of `reference_ms`) and time
// in batches of `reference_ms`, so that V has no unit and one V suits every currency.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/decisions/planner/costs.h"

namespace paceline::planner {

struct QueueState {
  double reference_ms = 1;      // the time of a batch without costs; > 0
  std::vector<double> lengths;  // indexed by budget, ≥ 0
  std::int64_t batches = 0;     // T
  friend bool operator==(const QueueState&, const QueueState&) = default;
};

QueueState empty_queues(const std::vector<Budget>& budgets, double reference_ms);

// One batch has cost this much and taken this long.
void add_batch(QueueState& state, const std::vector<Budget>& budgets, const Costs& costs, double batch_ms);

// The weight of a unit of the k-th cost in V·τ + Σ Q_k·c_k.
double weight(const QueueState& state, const std::vector<Budget>& budgets, std::size_t k);

}  // namespace paceline::planner

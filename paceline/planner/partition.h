// Where a pipeline whose devices, their order and their stages are fixed is cut: JDMP's communication-aware
// partition. Pure.
//
// balanced_cuts: F[s][i] = min_j max(F[s−1][j], comp(s; j..i), comm(j)), the least largest part, by dynamic
// programming in O(S·L²); what the search tries things with. A stage on m devices counts as an m-th of its
// comp.
//
// best_cuts: the least α + β·M of cost_model.h, exactly. β's runs of stages can be carried along: with a cap
// c on β, K_s = max(K_{s−1} + comm, 0) + comp_s − c·m_s must never be above 0. So for a cap the least Σ comp
// + Σ comm is found by dynamic programming over pairs (sum, K) that no other is better than in both. The caps
// are swept downwards, each from just below the β that the last one gave, until no smaller β can make up for
// the sum.
//
// Memory is kept by both.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/planner/cost_model.h"

namespace paceline::planner {

using Cuts = std::vector<std::int32_t>;  // as PlannedReplica's

// Cuts of its devices. Those that begin at the same number share a stage, and go on to; what number does not
// matter. Nothing when there are more stages than layers, all devices share one stage, or memory does not
// hold the model. Requires: a device, micro_batches (M) ≥ 1.
std::optional<Cuts> balanced_cuts(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
                                  std::int64_t micro_batches);
std::optional<Cuts> best_cuts(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
                              std::int64_t micro_batches);

// A pipeline of these devices, a stage each, not cut yet.
PlannedReplica uncut(std::vector<std::int32_t> devices);

}  // namespace paceline::planner

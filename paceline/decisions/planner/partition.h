// The places at which to cut a pipeline with fixed devices, order and stages: JDMP's communication-aware
// partition. Pure.
//
// balanced_cuts: F[s][i] = min_j max(F[s−1][j], comp(s; j..i), comm(j)), the least largest part, by dynamic
// programming in O(S·L²). The search tries plans with it. A stage on m devices counts as an m-th of its comp.
//
// best_cuts: the least α + β·M of cost_model.h, exactly. β's runs of stages can be carried along: with a cap
// c on β, K_s = max(K_{s−1} + comm, 0) + comp_s − c·m_s must never be above 0. So for a cap, dynamic
// programming finds the least Σ comp + Σ comm over pairs (sum, K) that no other pair beats in both. The caps
// go downwards, each from just below the β of the last one, until no smaller β can make up for the sum.
//
// Both respect the devices' memory.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/decisions/planner/cost_model.h"

namespace paceline::planner {

using Cuts = std::vector<std::int32_t>;  // same form as PlannedReplica::cuts

// The cuts of the replica's devices. Devices whose cuts in `replica` are equal share a stage, and still do
// afterwards; the numbers do not matter. Returns nothing if there are more stages than layers, if all devices
// share one stage, or if memory does not hold the model. Requires: a device, micro_batches (M) ≥ 1.
std::optional<Cuts> balanced_cuts(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
                                  std::int64_t micro_batches);
std::optional<Cuts> best_cuts(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
                              std::int64_t micro_batches);

// A pipeline of these devices that is not cut yet. `shares(d)`: whether device d, by its place, shares the
// stage of the one before it.
template <class Shares>
PlannedReplica uncut(std::vector<std::int32_t> devices, Shares shares) {
  PlannedReplica replica{std::move(devices), {}, 0};
  std::int32_t stage = 0;
  for (std::size_t d = 1; d < replica.devices.size(); ++d) replica.cuts.push_back(stage += shares(d) ? 0 : 1);
  return replica;
}
// A pipeline with one stage for each device.
inline PlannedReplica uncut(std::vector<std::int32_t> devices) {
  return uncut(std::move(devices), [](std::size_t) { return false; });
}

}  // namespace paceline::planner

// PipeDream's partition: the places to cut a pipeline over devices in a fixed order, and which of them share
// a stage (Narayanan et al. 2019, §3.1: A(j, m) = min over i, m' of max(A(i, m − m'), comm, T(i + 1 ..
// j)/m')). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/decisions/planner/cost_model.h"

namespace paceline::planner {

// One pipeline of all these devices for the whole batch, with at least two stages; its slowest part, per
// micro-batch, is as fast as possible. The paper's machines and links are alike. Here a stage takes as long
// as its slowest device, and a link counts as that of the two devices at the cut. Returns nothing if no
// sharing and cutting fits into memory, or if there is only one device or layer. The memory that devices need
// at once is known only when all stages are, so the result may still not fit. O(D²·L²).
std::optional<PlannedReplica> shared_stages(const CostModel& model, const std::vector<std::int32_t>& devices,
                                            std::int64_t u);

}  // namespace paceline::planner

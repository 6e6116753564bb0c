// PipeDream's partition: where to cut a pipeline over devices in a fixed order, and which of them share a
// stage (Narayanan et al. 2019, §3.1: A(j, m) = min over i, m' of max(A(i, m − m'), comm, T(i + 1 .. j)/m')).
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/planner/cost_model.h"

namespace paceline::planner {

// One pipeline of all these devices for the whole batch, at least two stages; the part of it that takes
// longest, of a micro-batch, is least. The paper's machines and links are alike. Here a stage takes as long
// as its slowest device, and a link counts as that of the two devices at the cut. There is none when no
// sharing and cutting fits into memory, or one device or layer is all there is. What devices keep at once is
// known only when all stages are, so what comes of it may still not fit. O(D²·L²).
std::optional<PlannedReplica> shared_stages(const CostModel& model, const std::vector<std::int32_t>& devices,
                                            std::int64_t u);

}  // namespace paceline::planner

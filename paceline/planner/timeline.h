// The exact course of one replica's batch: a pipeline under 1F1B with a flush at the end (Narayanan et al.
// 2019, 2021), by recurrence over what waits for what. The closed form of cost_model.h is held to it, and the
// simulation takes it for the truth. Pure.
//
// The schedule: of a stage that m devices share each takes every m-th micro-batch. It first runs as many
// forwards as it keeps at once (base/stage_turns.h), less one, then a forward and a backward by turns, then
// the backwards that are left. A link between two devices sends in both directions at once, in each one
// micro-batch after the other; the latency is on top and does not keep the link busy.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/planner/cluster.h"

namespace paceline::planner {

struct StageTimes {
  std::vector<double> forward_ms{};   // of one full micro-batch, by device of the stage
  std::vector<double> backward_ms{};  // by device
  std::vector<Link> links{};  // for each device, from each of the stage before; none in the first stage
  double bytes = 0;           // of one full micro-batch, over such a link and back
};

struct PipelineTimes {
  std::vector<StageTimes> stages;
};

// Until the last backward is done. `last`: the size of the last micro-batch as a share of a full one.
// Requires: micro_batches ≥ 1, 0 < last ≤ 1.
double pipeline_ms(const PipelineTimes& times, std::int64_t micro_batches, double last = 1);

}  // namespace paceline::planner

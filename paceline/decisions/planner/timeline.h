// The exact course of one replica's batch: a pipeline under 1F1B with a flush at the end (Narayanan et al.
// 2019, 2021), by recurrence over what waits for what. The closed form of cost_model.h is held to it, and the
// simulation takes it for the truth. Pure.
//
// The schedule: each of the m devices that share a stage takes every m-th micro-batch. It first runs as many
// forwards as it keeps at once (base/stage_turns.h), less one, then a forward and a backward by turns, then
// the backwards that are left. A link between two devices sends in both directions at once, in each one
// micro-batch after the other; the latency is on top and does not keep the link busy.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/decisions/planner/cluster.h"

namespace paceline::planner {

struct StageTimes {
  std::vector<double> forward_ms{};   // one full micro-batch, indexed by the stage's devices
  std::vector<double> backward_ms{};  // indexed by the stage's devices
  // links[d]: from each device of the stage before to device d; none in the first stage
  std::vector<Link> links{};
  double bytes = 0;  // bytes of one full micro-batch over such a link and back
};

struct PipelineTimes {
  std::vector<StageTimes> stages;
};

// Time until the last backward pass is done. `last`: the size of the last micro-batch as a share of a full
// one. Requires: micro_batches ≥ 1, 0 < last ≤ 1.
double pipeline_ms(const PipelineTimes& times, std::int64_t micro_batches, double last = 1);

}  // namespace paceline::planner

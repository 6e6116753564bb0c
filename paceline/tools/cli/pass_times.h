// The times of micro-batches in an engine that is driven as a worker drives it. They have what the engine's own times
// do not have: the loading of samples, the messages to the process that computes, and what a stage computes to stand in
// for the rest of the model.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"

namespace paceline::cli {

struct PassTimes {
  // Milliseconds of one micro-batch of each size: in a step of the whole model, and in both stages together of the
  // model that is cut in two.
  std::vector<double> step_ms, stages_ms;
  double once_ms = 0;  // time of a step of the largest size, whatever the number of its micro-batches
};

// Requires: 0 < cut < engine.units(); at least one size. Errors: the engine's own.
absl::StatusOr<PassTimes> measure_passes(engine::Engine& engine, const std::vector<std::int64_t>& sizes,
                                         std::int64_t cut);

}  // namespace paceline::cli

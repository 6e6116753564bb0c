// How long this machine takes for an update of weights, as a server makes it.
#pragma once

#include <cstdint>

#include "paceline/parameters/ps/update_rule.h"

namespace paceline::cli {

// Milliseconds of one update of `floats` trained numbers in the host's memory, with the look at a gradient before it;
// the median of several. 0 for optimizers that step whole tensors, and if there is nothing to train.
double measured_update_ms(const ps::OptimizerConfig& optimizer, std::int64_t floats);

}  // namespace paceline::cli

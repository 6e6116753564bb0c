// Measures a built-in model for the planner. For each unit: the time of one sample forward and backward, the
// size of its output, the memory that it keeps, and its weights.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/profile.h"
#include "paceline/formats/config/model_config.h"

namespace paceline::train {

// Runs a few small batches of noise through the model, unit by unit, on the threads set before; the fastest
// run counts. Sizes are exact: kept bytes are what libtorch's allocator holds after the forward pass. Takes
// about a second for the models here. No shape and 0 classes: as the model usually has them. Errors: as
// make_model.
absl::StatusOr<planner::ModelProfile> profile_model(const config::ModelConfig& model,
                                                    const std::vector<std::int64_t>& sample_shape,
                                                    std::int64_t classes);

}  // namespace paceline::train

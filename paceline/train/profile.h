// What the planner wants to know of a model of the zoo, measured here: of each unit, how long one sample
// takes forward and backward, what it sends on, what it keeps in memory, and its weights.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/model_config.h"
#include "paceline/planner/profile.h"

namespace paceline::train {

// Runs a few small batches of noise through the model, unit by unit, on the threads set before; the fastest
// run counts. Sizes are exact: kept bytes are what libtorch's allocator holds after the forward pass. Takes
// about a second for the models here. No shape and 0 classes: as the model usually has them. Errors: as
// make_model.
absl::StatusOr<planner::ModelProfile> profile_model(const config::ModelConfig& model,
                                                    const std::vector<std::int64_t>& sample_shape,
                                                    std::int64_t classes);

}  // namespace paceline::train

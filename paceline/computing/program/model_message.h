// The message in which a program describes its training: its tensors, and its settings for the job. Pure.
#pragma once

#include <absl/status/statusor.h>
#include <nlohmann/json_fwd.hpp>

#include "paceline/computing/program/messages.h"

namespace paceline::program {

// Errors: DataLoss, in words that fit after "the program ".
absl::StatusOr<Model> parse_model(const nlohmann::json& message);

}  // namespace paceline::program

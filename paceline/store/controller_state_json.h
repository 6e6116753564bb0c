// A ControllerState as JSON: in a checkpoint's state.json and in the journal's commits. Pure.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "paceline/control/controller_state.h"

namespace paceline::store {

nlohmann::json to_json(const control::ControllerState& state);

// On one line. A name that is not UTF-8 is written as well as it can be: nothing worse comes of it than that
// such a replica returns as a new one.
std::string to_text(const control::ControllerState& state);

// Whatever the document, the result is a state that some run can have been in. Errors: DataLoss, in words
// that fit after "FILE: ".
absl::StatusOr<control::ControllerState> controller_state_from(const nlohmann::json& document);

absl::StatusOr<control::ControllerState> controller_state_from_text(const std::string& text);

// Samples committed as of `state`: all that were leased but for the open ones.
std::int64_t committed_samples(const control::ControllerState& state);

}  // namespace paceline::store

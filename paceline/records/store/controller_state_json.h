// A ControllerState as JSON: in a checkpoint's state.json and in the journal's commits. Pure.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "paceline/decisions/control/controller_state.h"

namespace paceline::store {

nlohmann::json to_json(const control::ControllerState& state);

// The state on one line. Bytes of a name that are not UTF-8 are replaced; the replica then only returns as a
// new one.
std::string to_text(const control::ControllerState& state);

// The result is a state that some run can have been in. Errors: DataLoss, in words that fit after "FILE: ".
absl::StatusOr<control::ControllerState> controller_state_from(const nlohmann::json& document);

absl::StatusOr<control::ControllerState> controller_state_from_text(const std::string& text);

// The samples that were committed in `state`: all leased ones except those of open leases.
std::int64_t committed_samples(const control::ControllerState& state);

}  // namespace paceline::store

// The Controller's state as the text that servers keep of it, without reading it. The run folder has the same text.
#pragma once

#include <functional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/controller_state.h"

namespace paceline::coordinator {

struct StateText {
  using Read = std::function<absl::StatusOr<control::ControllerState>(const std::string& text)>;

  std::function<std::string(const control::ControllerState& state)> write;
  Read read;  // errors: DataLoss, in words that fit after "FILE: "
};

}  // namespace paceline::coordinator

// The error of a run that cannot go on because its weights are not finite.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "paceline/base/ids.h"

namespace paceline::control {

// OutOfRange. `loss`: the last finite one. `whose`: the devices with gradients that were not finite, "w1,
// w3"; empty: all gradients were finite.
inline absl::Status diverged(Version version, const std::optional<double>& loss, const std::string& whose) {
  const std::string cause =
      whose.empty() ? "the training diverges" : "the gradient of " + whose + " was not finite";
  const std::string last = loss ? fmt::format("; the last training loss was {:.4g}", *loss) : "";
  return absl::OutOfRangeError(
      fmt::format("version {} has weights that are not finite numbers: {}{}. The checkpoints before it are "
                  "whole. Go on from "
                  "them with a lower optimizer.lr, or with optimizer.clip",
                  version, cause, last));
}

}  // namespace paceline::control

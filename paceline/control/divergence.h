// What a run says that cannot go on, because weights have become infinite or no numbers at all.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "paceline/base/ids.h"

namespace paceline::control {

// OutOfRange. `loss`: the last one that was a finite number. `whose`: the devices whose gradients were not,
// "w1, w3"; empty where all were.
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

// Workers that compute on one GPU. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/tools/doctor/finding.h"

namespace paceline::doctor {

// The finding if `workers` of a host take its `cards` GPUs of NVIDIA in turn; nothing if each has one of its own. `mps`:
// NVIDIA's MPS runs here. Requires: cards > 0.
std::optional<Finding> shared_cards(std::int64_t workers, std::int64_t cards, bool mps);

}  // namespace paceline::doctor

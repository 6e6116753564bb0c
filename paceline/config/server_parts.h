// Which part of the model each server of a job keeps.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/ps/layout.h"

namespace paceline::config {

// One part a server. Errors: InvalidArgument when the model has fewer tensors than there are to be servers.
absl::StatusOr<std::vector<ps::Layout>> server_parts(const ps::Layout& layout, std::int64_t servers);

}  // namespace paceline::config

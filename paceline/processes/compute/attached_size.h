// The longest message about a model that its coordinator takes.
#pragma once

#include "absl/status/status.h"
#include "paceline/formats/wire/wire.h"

namespace paceline::compute {

// OK if the coordinator can take `attached`, and tell the servers of `hosts` hosts about its layout. Errors:
// InvalidArgument: the names of the model's tensors are too long together.
absl::Status check_size(const wire::WorkerAttached& attached, std::int64_t hosts);

}  // namespace paceline::compute

// The longest message about a model that its coordinator takes.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "paceline/formats/wire/wire.h"

namespace paceline::compute {

// OK if the coordinator can take `attached`, and tell the servers about its layout and the job, whose text has `job_bytes`
// bytes. Errors: InvalidArgument: the names of the model's tensors are too long together.
absl::Status check_size(const wire::WorkerAttached& attached, std::size_t job_bytes);

}  // namespace paceline::compute

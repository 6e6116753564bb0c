// Checks of a job against its model and its data, once their sizes are known and before anything starts.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/status.h>

#include "paceline/computing/program/messages.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/processes/launch/host_memory.h"

namespace paceline::cli {

// `samples`: number in the training set. Errors: InvalidArgument that begins with the key, for
// config::with_origin(), and has the two numbers that do not fit each other.
absl::Status check_sizes(const config::JobConfig& job, const ps::Layout& layout, std::int64_t samples);

// Whether one host's part of the job can fit into its memory. It needs more than is counted here.
absl::Status check_memory(const config::JobConfig& job, const ps::Layout& layout,
                          const launch::HostMemory& memory);

// Whether this process may make files that are long enough: shared memory counts as a file. `limit`: in
// bytes.
absl::Status check_file_size(const config::JobConfig& job, const ps::Layout& layout, std::int64_t limit,
                             bool in_virtual_time = false);

// Whether the processes of a job with this text can tell each other the names of its program's tensors.
absl::Status check_names(const std::string& job_toml, const program::Model& model);

}  // namespace paceline::cli

// The state that the workers of a host share because they are forks of one process.
#pragma once

#include <memory>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::train {

// dataset.h has it, which reads libtorch's headers.
struct DataSets;

// Makes this process ready to be forked for a job. It reads the job's data, which data_of() then gives in
// every fork, and computes one small step, so that libtorch sets up its tables here and not in each fork.
// Errors are left to the forks, which meet them again and report them. Starts no thread.
void prepare_forks(const config::JobConfig& job);

// The data that was read for this job before the process was forked; else read now. Errors: as load_data.
absl::StatusOr<std::shared_ptr<const DataSets>> data_of(const config::JobConfig& job);

}  // namespace paceline::train

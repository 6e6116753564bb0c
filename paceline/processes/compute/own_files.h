// The program and the files that a process of the job may start and read on its host. The job's text comes over the
// network, from the host that leads the run, and could name any of them. So the program, the data set and the file of
// first weights are those that a job file of this host names (docs/security.md).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::compute {

// `job` with the program and the files that `job_file` names. `job_file`: of this host; empty: there is none.
// Errors: the job starts a program or reads a file, and `job_file` names none, or there is no job file.
absl::StatusOr<config::JobConfig> with_own_files(config::JobConfig job, const std::string& job_file);

}  // namespace paceline::compute

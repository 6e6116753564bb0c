// Hears what a job's program trains and asks for, before anything is written.
#pragma once

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/program/messages.h"

namespace paceline::cli {

// What the program says of itself. It is started once for that, unless it has said it before
// (program/said_before.h). What it printed is shown where it fails. Requires: the job has a program.
// Errors: why it does not start, in one line.
absl::StatusOr<program::Model> probe_program(const config::JobConfig& job, const std::string& said);

}  // namespace paceline::cli

// Starts a job's program once, before anything is written, to hear what it trains and asks for.
#pragma once

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/program/messages.h"

namespace paceline::cli {

// What the program says of itself. What it printed is shown where it fails. Requires: the job has a program.
// Errors: why it does not start, in one line.
absl::StatusOr<program::Model> probe_program(const config::JobConfig& job);

}  // namespace paceline::cli

// `paceline train --virtual`: a job with real gradients and modelled time, in this process.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"

namespace paceline::cli {

// Runs the job in its run folder, from the start or from its newest checkpoint. Shows progress. The first
// Ctrl-C stops with a checkpoint, the second at once. Errors: those of the data, the model and the disk.
absl::Status train_virtually(const std::string& run, const config::JobConfig& job, bool resume, bool json);

}  // namespace paceline::cli

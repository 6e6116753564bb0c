// `paceline train --virtual`: a job with real gradients and modelled time, in this process.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/processes/launch/display.h"

namespace paceline::virtual_time {

// Runs the job that lies in a run folder, from the start or from its newest checkpoint. Shows progress. The
// first Ctrl-C stops with a checkpoint, the second at once. `after`: what a program did badly after the job
// was over. Errors: those of the data, the model and the disk.
absl::Status train_virtually(const std::string& run, bool resume, launch::Shown shown, absl::Status& after);

}  // namespace paceline::virtual_time

// `paceline train --virtual`: a job with real gradients and modelled time, in this process.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/cli/display.h"

namespace paceline::cli {

// Runs the job that lies in a run folder, from the start or from its newest checkpoint. Shows progress. The
// first Ctrl-C stops with a checkpoint, the second at once. Errors: those of the data, the model and the
// disk.
absl::Status train_virtually(const std::string& run, bool resume, Shown shown);

}  // namespace paceline::cli

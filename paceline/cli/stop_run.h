// Asks the leader of a run, from any process of this machine, for a clean stop with a checkpoint.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/store/run_folder.h"

namespace paceline::cli {

// `token`: the job's. Errors: PermissionDenied when it is another one; Unavailable when nobody leads the run.
absl::Status stop_run(const store::RunPaths& run, const std::string& token);

}  // namespace paceline::cli

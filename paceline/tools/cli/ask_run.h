// Asks the leader of a run for something. Any process of this machine may ask that shows the token of the
// job.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/records/store/run_folder.h"

namespace paceline::cli {

// Both say in words what happens now. `token`: the job's. Errors: PermissionDenied when it is another one;
// Unavailable when no coordinator leads the run; for an evaluation those of Attempt::next_to_measure too.

// A clean stop with a checkpoint.
absl::StatusOr<std::string> stop_run(const store::RunPaths& run, const std::string& token);
// The newest version is measured on the test set, out of turn.
absl::StatusOr<std::string> evaluate_run(const store::RunPaths& run, const std::string& token);

}  // namespace paceline::cli

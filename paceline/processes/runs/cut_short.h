// Whether a run's last attempt was cut short: it did not record what was lost, or the run went on from a checkpoint that
// is not in this folder. A host that keeps a copy of the run has the journal a while before the checkpoint.
#pragma once

#include <optional>

#include <absl/status/statusor.h>

#include "paceline/decisions/coordinator/restart.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

// The last attempt of a run that committed anything, if it was cut short. Errors: those of the journal.
absl::StatusOr<std::optional<coordinator::CutShortAttempt>> cut_short_attempt(const store::RunPaths& paths);

}  // namespace paceline::runs

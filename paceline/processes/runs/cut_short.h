// Whether a run's last attempt was cut short, as its folder tells.
#pragma once

#include <optional>

#include <absl/status/statusor.h>

#include "paceline/decisions/coordinator/restart.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

// The last attempt of a run that committed anything, if it was cut short. Errors: those of the journal.
absl::StatusOr<std::optional<coordinator::CutShortAttempt>> cut_short_attempt(const store::RunPaths& paths);

}  // namespace paceline::runs

// An attempt at a job whose coordinator was killed: it did not say what was lost, and where weights are kept
// twice, its servers may still have it.
#pragma once

#include <optional>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/store/run_folder.h"

namespace paceline::runs {

struct CutShortAttempt {
  Version newest;  // of its commits
  std::vector<HostRank>
      without;  // hosts that it did without, in order: in how many parts its servers have it
};

// The last attempt of a run that committed anything, if it was cut short. Errors: those of the journal.
absl::StatusOr<std::optional<CutShortAttempt>> cut_short_attempt(const store::RunPaths& paths);

}  // namespace paceline::runs

// The commits that a run lost and did again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/records/store/journal_reader.h"

namespace paceline::runs {

// The commits that attempts lost from which the run went back, as they recorded it. An attempt that was killed lost all
// commits that later ones did again. `about`: JournalReader::run. Errors: those of the journal.
absl::StatusOr<std::int64_t> lost_commits(const store::JournalReader& journal,
                                          const std::vector<store::Attempt>& attempts,
                                          const std::map<std::string, std::string>& about);

}  // namespace paceline::runs

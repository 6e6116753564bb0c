#include "paceline/processes/runs/lost_commits.h"

#include <algorithm>
#include <optional>

#include <absl/strings/numbers.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/runs/run_info.h"

namespace paceline::runs {

namespace {

// The number of commits of an attempt with versions above `kept`.
absl::StatusOr<std::int64_t> commits_above(const store::JournalReader& journal, std::int64_t attempt,
                                           Version kept) {
  PACELINE_ASSIGN_OR_RETURN(const auto committed, journal.committed(attempt));
  if (!committed) return 0;
  const std::int64_t before = std::max(kept.value(), committed->first.value() - 1);
  return std::max<std::int64_t>(0, committed->newest.value() - before);
}

}  // namespace

absl::StatusOr<std::int64_t> lost_commits(const store::JournalReader& journal,
                                          const std::vector<store::Attempt>& attempts,
                                          const std::map<std::string, std::string>& about) {
  std::int64_t lost = 0;
  std::optional<Version> kept;  // the newest version that all later attempts kept
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    const auto said = about.find(lost_commits_key(attempt->number));
    std::int64_t count = 0;
    if (kept && (said == about.end() || !absl::SimpleAtoi(said->second, &count))) {
      PACELINE_ASSIGN_OR_RETURN(count, commits_above(journal, attempt->number, *kept));
    }
    lost += count;
    kept = std::min(kept.value_or(attempt->from), attempt->from);
  }
  return lost;
}

}  // namespace paceline::runs

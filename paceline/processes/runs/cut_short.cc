#include "paceline/processes/runs/cut_short.h"

#include <algorithm>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/processes/runs/run_checkpoints.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/journal_reader.h"

namespace paceline::runs {

absl::StatusOr<std::optional<coordinator::CutShortAttempt>> cut_short_attempt(const store::RunPaths& paths) {
  auto journal = store::JournalReader::open(paths.journal());
  if (absl::IsNotFound(journal.status())) return std::nullopt;
  PACELINE_RETURN_IF_ERROR(journal.status());
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal->run());
  PACELINE_ASSIGN_OR_RETURN(const auto attempts, journal->attempts());
  Version followed_from;
  for (auto one = attempts.rbegin(); one != attempts.rend();
       followed_from = std::max(followed_from, one->from), ++one) {
    const auto job_toml = about.find(job_key(one->number));
    if (job_toml == about.end()) continue;  // the attempt never came to train
    PACELINE_ASSIGN_OR_RETURN(const auto committed, journal->committed(one->number));
    if (!committed) continue;
    const bool reported = about.contains(lost_commits_key(one->number));
    if (!coordinator::was_cut_short(reported, followed_from, newest_checkpoint(paths).value_or(Version(0))))
      return std::nullopt;
    PACELINE_ASSIGN_OR_RETURN(
        const config::JobConfig job,
        config::parse_job(config::with_current_keys(job_toml->second), paths.journal().string()));
    coordinator::CutShortAttempt found{committed->newest, job.without};
    std::sort(found.without.begin(), found.without.end());
    return found;
  }
  return std::nullopt;
}

}  // namespace paceline::runs

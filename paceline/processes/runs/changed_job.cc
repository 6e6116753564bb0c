#include "paceline/processes/runs/changed_job.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/sample_ledger.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_reader.h"

namespace paceline::runs {

namespace {

// The number of the newest attempt in the run's journal; 0 if that cannot be read, for example because a user moved a damaged
// journal away.
std::int64_t newest_attempt(const store::RunPaths& run) {
  const auto journal = store::JournalReader::open(run.journal());
  const auto attempts = journal.ok() ? journal->attempts() : journal.status();
  return !attempts.ok() || attempts->empty() ? 0 : attempts->back().number;
}

// Whether an attempt after the one with that number has committed a version. If that cannot be read, it may have.
bool may_have_committed(const store::RunPaths& run, std::int64_t after) {
  const auto journal = store::JournalReader::open(run.journal());
  if (absl::IsNotFound(journal.status())) return false;
  const auto attempts = journal.ok() ? journal->attempts() : journal.status();
  if (!attempts.ok()) return true;
  for (const store::Attempt& one : *attempts) {
    if (one.number <= after) continue;
    const auto committed = journal->committed(one.number);
    if (!committed.ok() || *committed) return true;
  }
  return false;
}

}  // namespace

absl::Status check_epochs(const config::JobConfig& job, const store::RunPaths& run, std::int64_t whole_set,
                          std::optional<Version> version) {
  const auto all = store::checkpoints(run.root);
  if (!all.ok()) return absl::OkStatus();
  const auto from = std::find_if(all->begin(), all->end(), [&](const store::Checkpoint& one) {
    return !version || one.state.controller.version == *version;
  });
  if (from == all->end()) return absl::OkStatus();
  const control::SampleLedger::Saved& saved = from->state.controller.ledger;
  const control::ControllerConfig config = config::controller_config(job, whole_set);
  if (saved.end || saved.next <= config.total_samples) return absl::OkStatus();
  // Rounded up, so that this many epochs are enough.
  const double epochs = static_cast<double>(saved.next) / static_cast<double>(config.dataset_size);
  const double least = std::ceil(1e4 * epochs) / 1e4;
  return absl::InvalidArgumentError(
      fmt::format("epochs: the run has trained up to epoch {0}; write {0} or more", least));
}

absl::StatusOr<ChangedJob> ChangedJob::record(const store::RunPaths& run, const std::string& job_toml) {
  ChangedJob changed(run);
  PACELINE_ASSIGN_OR_RETURN(std::string before, read_job_file(run.job()));
  if (job_toml == before) return changed;
  changed.before_ = std::move(before);
  changed.attempts_ = newest_attempt(run);
  PACELINE_RETURN_IF_ERROR(store::atomic_write(run.job(), job_toml));
  return changed;
}

absl::StatusOr<bool> ChangedJob::take_back() const {
  if (!before_ || may_have_committed(run_, attempts_)) return false;
  PACELINE_RETURN_IF_ERROR(store::atomic_write(run_.job(), *before_));
  return true;
}

}  // namespace paceline::runs

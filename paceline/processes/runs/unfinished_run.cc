#include "paceline/processes/runs/unfinished_run.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <vector>

#include "paceline/processes/runs/cut_short.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

namespace {

namespace fs = std::filesystem;

// The children of a process that was killed die a little later.
constexpr std::chrono::seconds kDying{3};

bool has_mark(const store::RunPaths& paths) {
  std::error_code error;
  return fs::exists(paths.mark(), error);
}

bool was_shut_down(const store::RunPaths& paths) {
  std::error_code error;
  return fs::exists(paths.shut_down(), error);
}

// The job that the run was asked for. Nothing if the folder is no run: a host that does not lead keeps one for itself.
std::optional<std::string> asked_before(const store::RunPaths& paths) {
  std::error_code error;
  auto before = read_job_file(paths.asked());
  if (!fs::exists(paths.job(), error) || !before.ok()) return std::nullopt;
  return *std::move(before);
}

bool is_named(const std::string& job, const std::string& name) {
  const auto before = config::parse_job(job, "job.toml");
  return before.ok() && before->name == name;
}

// True if servers of other hosts may have commits that no checkpoint has: only in a job with copies.
bool others_may_hold(const UnfinishedRun& run) {
  const store::RunPaths paths{run.folder};
  const auto toml = read_recorded_job(paths);
  const auto job = toml.ok() ? config::parse_job(*toml, paths.job()) : toml.status();
  if (!job.ok() || job->copies == 1) return false;
  const auto cut_short = cut_short_attempt(paths);
  return cut_short.ok() && cut_short->has_value();
}

// Names of one job's runs sort by the time they were made.
std::vector<std::string> newest_first(const fs::path& runs_dir) {
  std::vector<std::string> folders;
  std::error_code error;
  for (auto one = fs::directory_iterator(runs_dir, error); !error && one != fs::directory_iterator();
       one.increment(error)) {
    const auto folder = store::absolute_path(one->path());
    if (folder.ok()) folders.push_back(folder->string());
  }
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

}  // namespace

std::optional<UnfinishedRun> unfinished_run(const fs::path& runs_dir, const std::string& asked) {
  bool any_newer = false;
  for (const std::string& folder : newest_first(runs_dir)) {
    const store::RunPaths paths{folder};
    const auto before = asked_before(paths);
    const auto moved = before ? config::moved_settings(asked, *before) : std::nullopt;
    if (!moved) continue;
    // A newer run means that the job was started again after this one was stopped.
    const bool goes_on = !any_newer && was_shut_down(paths);
    if (has_mark(paths) || goes_on)
      return UnfinishedRun{folder, read_leader(paths).value_or(Leader{}), *moved};
    any_newer = true;
  }
  return std::nullopt;
}

std::optional<RunOfAnotherJob> unfinished_run_of_another_job(const fs::path& runs_dir,
                                                             const std::string& name,
                                                             const std::string& asked) {
  for (const std::string& folder : newest_first(runs_dir)) {
    const store::RunPaths paths{folder};
    const auto before = asked_before(paths);
    if (!before || !is_named(*before, name)) continue;
    auto differences = config::all_job_differences(asked, *before);
    if (!differences.ok() || differences->empty() || !(has_mark(paths) || was_shut_down(paths)))
      return std::nullopt;
    return RunOfAnotherJob{{folder, read_leader(paths).value_or(Leader{})}, *std::move(differences)};
  }
  return std::nullopt;
}

bool is_led(const UnfinishedRun& run) {
  const auto free = store::lock_file(store::RunPaths{run.folder}.lock(), kDying);
  return !free.ok() || !free->has_value();
}

bool may_be_taken_up(const UnfinishedRun& run) {
  const absl::Status newest = store::latest_checkpoint(run.folder).status();
  // Who goes on with a run of another version of Paceline is told so, instead of training it again.
  const bool there = newest.ok() || absl::IsFailedPrecondition(newest);
  return !is_led(run) && (there || others_may_hold(run));
}

bool any_unfinished_run(const fs::path& runs_dir) {
  const auto folders = newest_first(runs_dir);
  return std::any_of(folders.begin(), folders.end(),
                     [](const std::string& folder) { return has_mark({folder}) || was_shut_down({folder}); });
}

std::optional<std::int64_t> recorded_dataset_size(const store::RunPaths& run) {
  const auto journal = store::JournalReader::open(run.journal());
  const auto about = journal.ok() ? journal->run() : journal.status();
  return about.ok() ? count_in(*about, kDatasetSizeKey) : std::nullopt;
}

bool is_over(const std::string& run, const config::JobConfig& job) {
  const auto checkpoint = store::latest_checkpoint(run);
  auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  if (!checkpoint.ok() || !journal.ok()) return false;
  const auto dataset = recorded_dataset_size(store::RunPaths{run});
  if (!dataset) return false;
  const control::ControllerState& state = checkpoint->state.controller;
  const std::int64_t all = config::controller_config(job, *dataset).total_samples;
  if (state.ledger.committed() != state.ledger.end.value_or(all)) return false;
  const auto whole = store::newest_whole_checkpoint(run, state.version);
  if (!whole.ok()) return false;
  bool evaluated = !job.evaluates;
  const absl::Status read = journal->evaluations(
      [&](const control::Evaluated& one) { evaluated = evaluated || one.version == state.version; });
  return read.ok() && evaluated;
}

bool has_diverged(const std::string& run) {
  const auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  const auto about = journal.ok() ? journal->run() : journal.status();
  const auto attempts = journal.ok() ? journal->attempts() : journal.status();
  return about.ok() && attempts.ok() && about->contains(diverged_key(std::ssize(*attempts)));
}

bool stopped_at_target(const std::string& run) {
  const auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  const auto finish = journal.ok() ? journal->finish() : journal.status();
  return finish.ok() && *finish && (*finish)->cause == control::FinishCause::kTarget;
}

}  // namespace paceline::runs

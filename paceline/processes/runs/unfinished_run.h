// A run that was cut short, and what can be done for it: neither stopped by people nor failed, but killed
// together with the processes that looked after it, or stopped because its host was shut down.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/job_difference.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

struct UnfinishedRun {
  std::string folder;
  Leader leader;  // host 0 if the run is on one host
  std::vector<std::string>
      moved{};  // config::moved_settings, from the run's job to the one that was asked for
};

// The newest such run in `runs_dir` of the job `asked` (the text of RunPaths::asked), or one that goes on;
// nothing if there is none.
std::optional<UnfinishedRun> unfinished_run(const std::filesystem::path& runs_dir, const std::string& asked);

// The newest run there of another job with that name, if it is such a run.
struct RunOfAnotherJob {
  UnfinishedRun run;
  std::vector<config::JobDifference> differences;
};
std::optional<RunOfAnotherJob> unfinished_run_of_another_job(const std::filesystem::path& runs_dir,
                                                             const std::string& name,
                                                             const std::string& asked);

// True if a process has locked its folder. Waits a moment for processes that are dying.
bool is_led(const UnfinishedRun& run);
// True if no process has locked it, and there is a checkpoint to go on from, or commits that other hosts may
// still have.
bool may_be_taken_up(const UnfinishedRun& run);

// True if there may be one, of any job: a cheap look.
bool any_unfinished_run(const std::filesystem::path& runs_dir);

// The number of samples in its data when it began; nothing if its journal does not say.
std::optional<std::int64_t> recorded_dataset_size(const store::RunPaths& run);

// True if nothing of this run's job is left to do: all samples are in its newest checkpoint, and that version
// is evaluated. Then a process that goes on with the run has nobody to wait for.
bool is_over(const std::string& run, const config::JobConfig& job);

// True if the newest attempt ended because the training diverged.
bool has_diverged(const std::string& run);
// True if the newest attempt ended because the target was reached.
bool stopped_at_target(const std::string& run);

}  // namespace paceline::runs

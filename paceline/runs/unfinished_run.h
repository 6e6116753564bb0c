// What there is to be done for a run that was cut short: not stopped by people, not failed, but killed
// together with the processes that looked after it, or stopped as its host was shut down.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "paceline/config/job_config.h"
#include "paceline/runs/leader.h"
#include "paceline/store/run_folder.h"

namespace paceline::runs {

struct UnfinishedRun {
  std::string folder;
  Leader leader;  // of host 0 where the run is on one host
};

// The newest such run in `runs_dir` of the job `asked` (as RunPaths::asked has it), or one that goes on;
// nothing where there is none.
std::optional<UnfinishedRun> unfinished_run(const std::filesystem::path& runs_dir, const std::string& asked);

// Whether somebody has its folder. Waits a moment for processes that are dying.
bool is_led(const UnfinishedRun& run);
// Nobody has, and there is a checkpoint to go on from, or commits that other hosts may still hold.
bool may_be_taken_up(const UnfinishedRun& run);

// Whether there may be one, of any job: a look that costs little.
bool any_unfinished_run(const std::filesystem::path& runs_dir);

// How many samples its data had when it began; nothing where its journal does not say.
std::optional<std::int64_t> recorded_dataset_size(const store::RunPaths& run);

// Whether nothing of this run's job is left to do: all samples are in its newest checkpoint, and that version
// is evaluated. Then a process that goes on with it has nobody to wait for.
bool is_over(const std::string& run, const config::JobConfig& job);

}  // namespace paceline::runs

// What there is to be done for a run that ended without a goodbye: not stopped, not failed, but killed
// together with whoever looked after it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/config/job_config.h"

namespace paceline::cli {

// The newest run folder in `runs_dir` of such a run of the job `asked` (as RunPaths::asked has it) that
// nobody uses and that has a checkpoint to go on from; nothing where there is none. Waits a moment for
// processes that are dying.
std::optional<std::string> unfinished_run(const std::filesystem::path& runs_dir, const std::string& asked);

// Errors: Unavailable, that another host than `host` leads the newest such run by now.
absl::Status check_led_from_here(const std::filesystem::path& runs_dir, const std::string& asked, int host);

// Whether nothing of this run's job is left to do: all samples are in its newest checkpoint, and that version
// is evaluated. Then whoever goes on with it has nobody to wait for.
bool is_over(const std::string& run, const config::JobConfig& job);

}  // namespace paceline::cli

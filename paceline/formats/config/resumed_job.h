// The settings with which a run that was resumed has to go on. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::config {

// A run that is about to go on.
struct ResumedRun {
  std::string folder;
  std::int64_t whole_set = 0;  // the samples of its training set now
  std::optional<std::int64_t>
      epoch_before;  // the samples of its epoch so far; nothing if the journal is lost
};

// Whether the run, whose job was `before`, can go on with the job `now`. Errors: InvalidArgument. It begins with the key
// that has to stay, if a key is to blame (origin.h).
absl::Status check_resumed(const JobConfig& before, const JobConfig& now, const ResumedRun& run);

}  // namespace paceline::config

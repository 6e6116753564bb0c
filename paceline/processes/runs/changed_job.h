// The job of a run that goes on with other settings than it had.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

// Whether the job's epochs reach beyond the samples on which a checkpoint has trained, or to their end. `whole_set`: the
// samples of its training set. `version`: the checkpoint's; nothing for the newest one. OK if the checkpoint cannot be read.
// Errors: InvalidArgument; it begins with the key.
absl::Status check_epochs(const config::JobConfig& job, const store::RunPaths& run, std::int64_t whole_set,
                          std::optional<Version> version = std::nullopt);

// A setting may turn out to be impossible only after processes have read the recorded job. The run then keeps its former job.
class ChangedJob {
 public:
  // Records `job_toml` as the run's job. Errors: the disk's.
  static absl::StatusOr<ChangedJob> record(const store::RunPaths& run, const std::string& job_toml);

  // Records the former job again, if it was another one and nothing was committed since. True if it did so. Errors: the
  // disk's.
  absl::StatusOr<bool> take_back() const;

 private:
  explicit ChangedJob(store::RunPaths run) : run_(std::move(run)) {}

  store::RunPaths run_;
  std::optional<std::string> before_;  // the former job, if it was another one
  std::int64_t attempts_ = 0;          // the number of the newest attempt before the change
};

}  // namespace paceline::runs

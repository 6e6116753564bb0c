// A run's checkpoints, as its host writes them and starts from them. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/rpc/coordinator.h"
#include "paceline/store/checkpoint.h"
#include "paceline/store/run_folder.h"

namespace paceline::runs {

using Notice = std::function<void(const std::string&)>;

class RunCheckpoints final : public rpc::CheckpointSink {
 public:
  // `job` outlives it. `notice`: one line about what could not be deleted.
  RunCheckpoints(std::filesystem::path run, const config::JobConfig& job, Notice notice)
      : run_(std::move(run)), job_(job), notice_(std::move(notice)) {}

  absl::StatusOr<std::string> begin(Version version) override;
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override;

 private:
  const std::filesystem::path run_;
  const config::JobConfig& job_;
  const Notice notice_;
  std::optional<store::CheckpointWriter> writer_;
};

// Whether a run goes on from its newest checkpoint.
enum class GoOn { kNo, kYes, kIfThereIsACheckpoint };

// What the run goes on from, if it is to; clears away what was left unfinished, or says in a line why it
// could not. Errors: no checkpoint where there must be one, or a damaged one.
absl::StatusOr<std::optional<rpc::Restart>> find_restart(const store::RunPaths& paths, GoOn go_on,
                                                         const Notice& notice);

// Nothing when there is none that can be used.
std::optional<Version> newest_checkpoint(const store::RunPaths& paths);

}  // namespace paceline::runs

// A run's checkpoints, as its host writes them and starts from them. One thread.
#pragma once

#include <filesystem>
#include <optional>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/rpc/coordinator.h"
#include "paceline/store/checkpoint.h"
#include "paceline/store/run_folder.h"

namespace paceline::runs {

class RunCheckpoints final : public rpc::CheckpointSink {
 public:
  // `job` outlives it.
  RunCheckpoints(std::filesystem::path run, const config::JobConfig& job) : run_(std::move(run)), job_(job) {}

  absl::StatusOr<std::string> begin(Version version) override;
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override;

 private:
  const std::filesystem::path run_;
  const config::JobConfig& job_;
  std::optional<store::CheckpointWriter> writer_;
};

// Whether a run goes on from its newest checkpoint.
enum class GoOn { kNo, kYes, kIfThereIsACheckpoint };

// What the run goes on from, if it is to; clears away what was left unfinished. Errors: no checkpoint where
// there must be one, or a damaged one.
absl::StatusOr<std::optional<rpc::Restart>> find_restart(const store::RunPaths& paths, GoOn go_on);

// Nothing when there is none that can be used.
std::optional<Version> newest_checkpoint(const store::RunPaths& paths);

}  // namespace paceline::runs

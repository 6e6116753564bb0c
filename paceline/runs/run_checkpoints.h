// A run's checkpoints, as its host writes them and starts from them. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"
#include "paceline/coordinator/restart.h"
#include "paceline/store/checkpoint.h"
#include "paceline/store/checkpoint_sink.h"
#include "paceline/store/run_folder.h"

namespace paceline::runs {

using Notice = std::function<void(const std::string&)>;

class RunCheckpoints final : public store::CheckpointSink {
 public:
  // `job` outlives it. `notice`: one line about what could not be deleted.
  RunCheckpoints(std::filesystem::path run, const config::JobConfig& job, Notice notice)
      : run_(std::move(run)), job_(job), notice_(std::move(notice)) {}

  // A checkpoint that is not finished goes: the run has ended before, and its disk may be full.
  ~RunCheckpoints() override { give_up(); }

  absl::StatusOr<std::string> begin(Version version) override;
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override;
  void give_up() override;

 private:
  const std::filesystem::path run_;
  const config::JobConfig& job_;
  const Notice notice_;
  std::optional<store::CheckpointWriter> writer_;
};

// Whether a run goes on from its newest checkpoint.
enum class GoOn { kNo, kYes, kIfThereIsACheckpoint };

// What the run goes on from, if it is to: the newest whole checkpoint. Those that are newer and damaged are
// set aside, and a line says what is lost with them. Clears away what was left unfinished, or says in a line
// why it could not. Errors: no checkpoint where there must be one, or none that is whole.
absl::StatusOr<std::optional<coordinator::Restart>> find_restart(const store::RunPaths& paths, GoOn go_on,
                                                                 const Notice& notice);

// From now on the run goes on from that version: newer checkpoints are set aside. Errors: it has none of that
// version, or a damaged one.
absl::Status go_back_to(const store::RunPaths& paths, Version version);

// Nothing when there is none that can be used.
std::optional<Version> newest_checkpoint(const store::RunPaths& paths);

}  // namespace paceline::runs

// A run's checkpoints: written by its host, and read when the run goes on. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/decisions/coordinator/restart.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/checkpoint_sink.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

using Notice = std::function<void(const std::string&)>;

class RunCheckpoints final : public store::CheckpointSink {
 public:
  // `job` outlives it. `notice`: gets one line about a checkpoint that could not be deleted.
  RunCheckpoints(std::filesystem::path run, const config::JobConfig& job, Notice notice)
      : run_(std::move(run)), job_(job), notice_(std::move(notice)) {}

  // Removes a checkpoint that is not finished: the run has ended before, and its disk may be full.
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

// The newest whole checkpoint, from which the run goes on if `go_on` says so. Sets aside newer, damaged ones,
// and notices in a line what is lost with them. Removes unfinished ones, or notices in a line why it could
// not. Errors: no checkpoint although there must be one, or none that is whole, with
// ExitReason::kNothingToResume; the disk's.
absl::StatusOr<std::optional<coordinator::Restart>> find_restart(const store::RunPaths& paths, GoOn go_on,
                                                                 const Notice& notice);

// Lets the run go on from that version: sets newer checkpoints aside. Errors: there is no checkpoint of that
// version, or a damaged one.
absl::Status go_back_to(const store::RunPaths& paths, Version version);

// Nothing if there is no usable checkpoint.
std::optional<Version> newest_checkpoint(const store::RunPaths& paths);

}  // namespace paceline::runs

// state.json of a checkpoint: the state that a coordinator needs to go on, besides the weights. For
// checkpoint.cc and a process that resumes a run. Any thread.
//
// Invariant of a state that was read: some run can have been in it, and its bytes are unchanged (they carry a
// CRC-32). Controller::restore checks whether it fits the job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/time.h"
#include "paceline/decisions/control/controller_state.h"

namespace paceline::store {

struct CheckpointState {
  control::ControllerState controller;
  Duration elapsed{0};       // the job's time when that version was committed
  std::int64_t samples = 0;  // committed samples, which the controller's state says too
  int shards = 0;
};

inline constexpr int kMaxShards = 1'000'000;

std::string to_text(const CheckpointState& state);

// Errors: NotFound; DataLoss if it is damaged; FailedPrecondition if another version of Paceline wrote it, in
// another format.
absl::StatusOr<CheckpointState> read_checkpoint_state(const std::filesystem::path& path);

}  // namespace paceline::store

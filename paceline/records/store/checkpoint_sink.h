// A destination of checkpoints. All calls on one thread, for one version at a time.
#pragma once

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/controller_state.h"

namespace paceline::store {

class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // Begins a checkpoint. Returns a folder for the shards to write into.
  virtual absl::StatusOr<std::string> begin(Version version) = 0;
  // Call when every shard has written: makes the checkpoint count.
  virtual absl::Status finish(const control::ControllerState& state, Duration elapsed) = 0;
  // Removes the checkpoint, which will not count.
  virtual void give_up() = 0;
};

}  // namespace paceline::store

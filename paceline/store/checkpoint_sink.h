// Where checkpoints go. All calls on one thread, for one version at a time.
#pragma once

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/control/controller_state.h"

namespace paceline::store {

class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // A folder for the shards to write into.
  virtual absl::StatusOr<std::string> begin(Version version) = 0;
  // Every shard has written: make it count.
  virtual absl::Status finish(const control::ControllerState& state, Duration elapsed) = 0;
  // It will not count: what there is of it goes.
  virtual void give_up() = 0;
};

}  // namespace paceline::store

// The checkpoints of a run. Each takes this way: requested → every server writes its shard → the sink makes
// it count. Where one of them cannot, what there is of it goes once all have answered, and another may be
// requested. Of the event loop's thread.
//
// What always holds: one is written at a time, and a version counts only once. One that is asked for meanwhile
// is left out: the next comes soon enough.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/time.h"
#include "paceline/control/controller_state.h"
#include "paceline/rpc/paceline.pb.h"

namespace paceline::rpc {

// Where checkpoints go. All calls on the loop's thread, for one version at a time.
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

class Checkpoints {
 public:
  // `newest`: the version that is on disk already, if one is. The sink outlives this.
  Checkpoints(std::size_t servers, std::function<void(const wire::ServerOrder&)> tell_servers,
              CheckpointSink& sink, std::optional<Version> newest);

  // Errors: the sink's; there is no checkpoint then.
  absl::Status request(control::ControllerState state, Duration elapsed);
  // That server has written, or could not. Errors: what a server said, or the sink's; there is no checkpoint
  // then.
  absl::Status written(std::size_t server, const wire::ServerWritten& message);
  // The run has failed: nothing is waited for, nobody is told.
  void forget() { writing_.reset(); }

  // Some server has not answered yet.
  bool writing() const { return writing_.has_value(); }
  // That counts.
  std::optional<Version> newest() const { return newest_; }

 private:
  struct Writing {
    control::ControllerState state;
    Duration elapsed{0};
    std::set<std::size_t> answered{};  // servers
    absl::Status status{};             // the first error
  };

  const std::size_t servers_;
  const std::function<void(const wire::ServerOrder&)> tell_servers_;
  CheckpointSink& sink_;
  std::optional<Writing> writing_;
  std::optional<Version> newest_;
};

}  // namespace paceline::rpc

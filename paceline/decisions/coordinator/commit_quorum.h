// Knows which commits of a job that keeps its weights twice are certain: every server has prepared them, so
// the others can go on from there whichever server is lost. It also keeps the Controller's state as of the
// last certain commit, to be written beside its weights after a loss. Pure.
//
// Invariant: a commit is certain only after the one before it, and no process may see its version earlier.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/controller_state.h"

namespace paceline::coordinator {

class CommitQuorum {
 public:
  struct Snapshot {
    control::ControllerState state;
    Duration elapsed{0};
  };

  // The attempt begins with this version.
  CommitQuorum(std::size_t servers, Version start) : start_(start), prepared_(servers, start) {}

  // The Controller's state as of each of the next commits, in their order.
  void ordered(std::vector<control::ControllerState> states, Duration elapsed);
  // The state of a version that was ordered and is not certain yet.
  const Snapshot& ordered(Version version) const;
  // The server has prepared the version. Returns the version if it is certain from now on. Errors:
  // InvalidArgument when the server cannot have done so.
  absl::StatusOr<std::optional<Version>> prepared(ServerId server, Version version);

  Version latest() const { return latest_ ? latest_->state.version : start_; }
  // The state of the latest certain version; nothing if that is the version that the attempt began with.
  const std::optional<Snapshot>& snapshot() const { return latest_; }

 private:
  const Version start_;
  IdVector<ServerId, Version> prepared_;
  std::optional<Snapshot> latest_;
  std::deque<Snapshot> pending_;
};

}  // namespace paceline::coordinator

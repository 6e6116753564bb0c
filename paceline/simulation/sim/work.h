// The part of a virtual cluster besides time: none in a simulation, real gradients in virtual time.
#pragma once

#include <optional>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/metrics.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/simulation/sim/cluster_model.h"

namespace paceline::sim {

class Work {
 public:
  virtual ~Work() = default;
  // The replica, in this place, pulls the weights, as they are now, and starts the iteration of `release`.
  virtual absl::Status start(const control::Release& release, const PlaceModel& place) = 0;
  struct Finished {
    double loss = 0;
    Metrics metrics = {};
    // The same as in control::ReplicaReady.
    std::optional<double> weight = {};
    std::optional<std::int64_t> data_end = {};
  };
  // The replica's iteration is over. Requires: started. Not called for a replica that crashes or leaves.
  virtual absl::StatusOr<Finished> finish(ReplicaId replica) = 0;
  // The servers make the next version.
  virtual absl::Status commit(Time at, const control::CommitRecord& record) = 0;
  // The replica has left, maybe in the middle of an iteration, and no later commit has its gradient.
  virtual void forget(ReplicaId) {}
};

}  // namespace paceline::sim

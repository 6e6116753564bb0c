// What happens in a virtual cluster besides time: nothing in a simulation, real gradients in virtual time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/control/orders.h"

namespace paceline::sim {

class Work {
 public:
  virtual ~Work() = default;
  // The replica pulls the weights, as they are now, and starts the iteration of `release`.
  virtual absl::Status start(const control::Release& release) = 0;
  // Its iteration is over; its loss. Requires: started. One that crashes or leaves is not finished.
  virtual absl::StatusOr<double> finish(ReplicaId replica) = 0;
  // The servers make the next version.
  virtual absl::Status commit(Time at, const control::CommitRecord& record) = 0;
};

}  // namespace paceline::sim

// The coordinator's messages to a worker.
#pragma once

#include <absl/status/status.h>

#include "paceline/base/time.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/coordinator/replica_table.h"

namespace paceline::coordinator {

// Gives a role to the first device that has none. Requires: there is one.
wire::WorkerOrder role_order(const LiveReplica& replica, const planner::Plan& plan);
// Checks the answer of a worker that got this role. Errors: InvalidArgument when it does not name all ways on
// which other devices are to reach it.
absl::Status check_taken(const wire::Role& role, const wire::RoleTaken& taken);
// Errors: InvalidArgument when no worker can have measured or computed this.
absl::Status check_ready(const wire::WorkerReady& ready);
wire::WorkerOrder dissolve_order(ReplicaId replica);
wire::WorkerOrder release_order(const control::Release& release, Time now);

}  // namespace paceline::coordinator

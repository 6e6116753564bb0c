// The coordinator's messages to a worker.
#pragma once

#include <absl/status/status.h>

#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/replica_table.h"
#include "paceline/decisions/planner/plan.h"

namespace paceline::coordinator {

// The role of the first device that has none. Requires: there is one.
Role next_role(const LiveReplica& replica, const planner::Plan& plan);
// Checks the answer of a worker that got this role. Errors: InvalidArgument when it does not name all ways on
// which other devices are to reach it.
absl::Status check_taken(const Role& role, const RoleTaken& taken);
// Errors: InvalidArgument when no worker can have measured or computed this.
absl::Status check_ready(const WorkerReady& ready);

}  // namespace paceline::coordinator

// Between the wire's messages and our types. What comes from the wire is checked here, once.
#pragma once

#include <absl/status/statusor.h>

#include "paceline/base/lease.h"
#include "paceline/control/orders.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/update_rule.h"
#include "paceline/rpc/paceline.pb.h"

namespace paceline::rpc {

wire::Layout to_wire(const ps::Layout& layout);
// Errors: InvalidArgument for shapes that are not positive or do not fit memory.
absl::StatusOr<ps::Layout> from_wire(const wire::Layout& message);

wire::Lease to_wire(const Lease& lease);
// Errors: InvalidArgument for an empty or negative range.
absl::StatusOr<Lease> from_wire(const wire::Lease& message);

// How far along the direction its replica is to look ahead under this optimizer. Errors: InvalidArgument for
// numbers that are none, or below 0.
absl::StatusOr<float> look_ahead_reach(const wire::WorkerRelease& message,
                                       const ps::OptimizerConfig& optimizer);

wire::Apply to_wire(const control::CommitRecord& record);

}  // namespace paceline::rpc

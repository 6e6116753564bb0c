// Decides what a worker does that cannot take its role in a replica.
#pragma once

#include <chrono>
#include <functional>

#include <absl/status/status.h>

namespace paceline::compute {

// Usually a neighbour has just left the replica: its memory is gone, or is already that of its next role.
// Then the replica is over, and the next order will say so: OK. If no order comes, the error stands; if
// memory is missing it is Aborted, so that the worker comes back as a new one. `order_comes`: waits at most
// so long for an order; true when one is here.
absl::Status role_not_taken(const absl::Status& why,
                            const std::function<bool(std::chrono::nanoseconds)>& order_comes);

}  // namespace paceline::compute

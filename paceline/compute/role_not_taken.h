// What it means that a worker cannot take its role in a replica.
#pragma once

#include <chrono>
#include <functional>

#include <absl/status/status.h>

namespace paceline::compute {

// Mostly a neighbour has left the replica this very moment: its memory is gone, or other memory of its next
// role is there by now. Then the replica is over, and the word of that is the next order: OK. Where no order
// comes, it is what was wrong; Aborted, for the worker to come again as a new one, where memory is not there.
// `order_comes`: waits at most so long for an order; true when one is here.
absl::Status role_not_taken(const absl::Status& why,
                            const std::function<bool(std::chrono::nanoseconds)>& order_comes);

}  // namespace paceline::compute

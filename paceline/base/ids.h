// The identifiers every folder speaks in.
#pragma once

#include "paceline/base/strong_int.h"

namespace paceline {

// One whole copy of the model. Small numbers from 0, never used twice in a run: a replica that comes back
// is a new one.
using ReplicaId = StrongInt<struct ReplicaIdTag, std::int32_t>;

// How many iterations a replica has finished. A contribution is named (replica, clock).
using Clock = StrongInt<struct ClockTag>;

// The number of a commit; version v of the weights is what commit v produced. Version 0 is the start.
using Version = StrongInt<struct VersionTag>;

// Counts those gradients of one host, from 1 on, that leave it before they are in a commit.
using EarlyNumber = StrongInt<struct EarlyNumberTag>;

}  // namespace paceline

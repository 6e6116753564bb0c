// Numbers of a job's shards, servers, hosts and devices, each from 0. They are different types: a server is
// not the shard that it keeps first, and a host that others have left behind keeps its rank and gets another
// place.
#pragma once

#include <cstdint>

#include "paceline/base/strong_int.h"

namespace paceline {

// A part of the weights.
using ShardId = StrongInt<struct ShardIdTag, std::int32_t>;

// A server of the job as it is now. Server n keeps shard n, and with copies another one too.
using ServerId = StrongInt<struct ServerIdTag, std::int32_t>;

// The number by which a host identifies itself. It stays the same for the whole run.
using HostRank = StrongInt<struct HostRankTag, std::int32_t>;

// The number of a host among those that the job still has.
using HostPlace = StrongInt<struct HostPlaceTag, std::int32_t>;

// The number of a device among those that the job still has.
using DevicePlace = StrongInt<struct DevicePlaceTag, std::int32_t>;

}  // namespace paceline

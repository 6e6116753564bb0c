// The numbers of what a job has several of, each from 0. None stands for another: a server is not the shard
// that it keeps first, and a host that others have left behind keeps its rank and gets another place.
#pragma once

#include <cstdint>

#include "paceline/base/strong_int.h"

namespace paceline {

// A part of the weights.
using ShardId = StrongInt<struct ShardIdTag, std::int32_t>;

// A server of the job as it is now. Server n keeps shard n, and where there are copies another one.
using ServerId = StrongInt<struct ServerIdTag, std::int32_t>;

// What a host calls itself. It keeps that for the whole run.
using HostRank = StrongInt<struct HostRankTag, std::int32_t>;

// Of a host among those that the job still has.
using HostPlace = StrongInt<struct HostPlaceTag, std::int32_t>;

// Of a device among those that the job still has.
using DevicePlace = StrongInt<struct DevicePlaceTag, std::int32_t>;

}  // namespace paceline

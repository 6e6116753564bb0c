#pragma once

#include <cstdint>

namespace paceline::control {

// The number of replicas that ever join a job; one that comes back is another one. Far more than any run has, and few
// enough for a table.
inline constexpr std::int32_t kMostReplicas = 1 << 24;

}  // namespace paceline::control

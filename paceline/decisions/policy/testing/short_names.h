// Short names for tests that write out what happens to whom, and when.
#pragma once

#include "paceline/base/ids.h"
#include "paceline/base/time.h"

namespace paceline::policy::testing {

inline constexpr ReplicaId kA{0};
inline constexpr ReplicaId kB{1};
inline constexpr ReplicaId kC{2};

// The time `seconds` after the beginning.
inline Time s(double seconds) { return Time{} + from_seconds(seconds); }

}  // namespace paceline::policy::testing

// How long a launcher waits before it acts.
#pragma once

#include <chrono>

namespace paceline::supervisor {

// A process for which the coordinator waits this long hangs, or does not find its way.
inline constexpr std::chrono::seconds kMissedLimit{10};
// The other hosts are usually started within this time. So long this host can tell them why it cannot start.
inline constexpr std::chrono::seconds kStartsTogether{30};

}  // namespace paceline::supervisor

// How long the hosts of a job wait for each other at its start: host 0 for the others, and they for host 0,
// which looks at its data, or asks its program, before it listens.
#pragma once

#include <chrono>

namespace paceline {

inline constexpr std::chrono::seconds kStartPatience{600};

}  // namespace paceline

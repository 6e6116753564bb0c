// Checks times that other processes say they have measured. Pure.
#pragma once

#include <chrono>
#include <cstdint>

#include "paceline/base/time.h"

namespace paceline::coordinator {

// Whether a process can have measured this time.
inline bool is_time(std::int64_t ns) { return ns >= 0 && Duration(ns) < std::chrono::days(30); }

}  // namespace paceline::coordinator

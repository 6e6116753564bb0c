// Checks times that other processes say they have measured. Pure.
#pragma once

#include <chrono>

#include "paceline/base/time.h"

namespace paceline::coordinator {

// Whether a process can have measured this time.
inline bool is_time(Duration time) { return time >= Duration::zero() && time < std::chrono::days(30); }

}  // namespace paceline::coordinator

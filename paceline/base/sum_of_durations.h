// The sum of times of many replicas, which may be more than the 292 years of a Duration. Exact up to 104 days.
#pragma once

#include "paceline/base/time.h"

namespace paceline {

using SumOfDurations = std::chrono::duration<double, std::nano>;

inline double to_seconds(SumOfDurations sum) { return std::chrono::duration<double>(sum).count(); }

}  // namespace paceline

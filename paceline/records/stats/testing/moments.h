// The moment `seconds` after a run's beginning, for tests that make a run by hand.
#pragma once

#include "paceline/base/time.h"

namespace paceline::report::testing {

inline Time at(double seconds) { return Time(from_seconds(seconds)); }

}  // namespace paceline::report::testing

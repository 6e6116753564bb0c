// For tests that tell a run by hand: the moment so many seconds after its beginning.
#pragma once

#include "paceline/base/time.h"

namespace paceline::report::testing {

inline Time at(double seconds) { return Time(from_seconds(seconds)); }

}  // namespace paceline::report::testing

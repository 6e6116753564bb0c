// The one line that a terminal shows while a run is under way:
//   ██████▌       41 %  12.4k samples/s  loss 0.812  accuracy 71.2 %  wait 12 %  gap 2  4/4 live  3m20s left
// Under a policy that groups it also has the mean size of the latest groups, the size of the last one and the
// cause that closed it: "groups 2.6  now 3: path free". A pure function; the owner of the terminal prints it
// after a carriage return. In a log there is no bar, and nothing is left out.
#pragma once

#include <string>

#include "paceline/records/stats/summary.h"

namespace paceline::report {

// The width for an output that is no terminal.
inline constexpr int kNoTerminal = 0;

// At most `width` columns, however narrow: the least important parts are left out first. The bar takes the
// free space.
std::string progress_line(const Summary& summary, int width);

}  // namespace paceline::report

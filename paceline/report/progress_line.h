// The one line that a terminal shows while a run is under way:
//   ██████▌       41 %  12.4k samples/s  loss 0.812  accuracy 71.2 %  wait 12 %  gap 2  4/4 live  3m20s left
// With a policy that groups there is also the mean size of the latest groups, and of the last one its size
// and what closed it: "groups 2.6  now 3: path free". A pure function; the owner of the terminal prints it
// after a carriage return. In a log there is no bar, and nothing is left out.
#pragma once

#include <string>

#include "paceline/report/summary.h"

namespace paceline::report {

// The width of what is no terminal.
inline constexpr int kNoTerminal = 0;

// At most `width` columns, however narrow: what matters less is left out first. The bar takes what is free.
std::string progress_line(const Summary& summary, int width);

}  // namespace paceline::report

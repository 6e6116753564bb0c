// The log lines about refused connections. Anybody can cause them, so their number is limited. Any thread.
#pragma once

#include <string>

namespace paceline::peer {

// Logs a warning, or counts it if there were too many.
void warn_of_refused(const std::string& line);
// Call this regularly: it logs one line about warnings that were only counted, if there are any.
void say_how_many_more();

}  // namespace paceline::peer

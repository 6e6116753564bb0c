// The lines about those who were not let in. Anybody can bring them about, so there is a limit to them. Any
// thread.
#pragma once

#include <string>

namespace paceline::peer {

// A warning, or one more that is only counted.
void warn_of_refused(const std::string& line);
// To be called now and then: a line about those that were only counted, if there are any.
void say_how_many_more();

}  // namespace paceline::peer

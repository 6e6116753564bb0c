// `paceline top`: a run on one screen of a terminal, as plain lines. Pure: made from the parts that pages
// show.
#pragma once

#include <string>
#include <vector>

#include "paceline/tools/ui/run_follower.h"

namespace paceline::ui {

// At most `height` lines of at most `width` columns. Requires: width ≥ 20, height ≥ 4.
std::vector<std::string> top_screen(const RunFollower::Parts& parts, const std::string& run, int width,
                                    int height);

}  // namespace paceline::ui

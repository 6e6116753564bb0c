// Samples a second over time, from the curve of committed samples. Pure.
#pragma once

#include <vector>

#include "paceline/records/stats/history.h"

namespace paceline::report {

struct Rate {
  double time_s = 0;  // the middle of the span over which this is the mean
  double samples_per_s = 0;
  double samples = 0;  // committed at that time
};

// Means over equal spans, as many as the points support and at most `most`. Samples are spread evenly between
// two commits: otherwise a policy of few large commits would look like a row of needles.
std::vector<Rate> throughput(const History& history, std::size_t most);

}  // namespace paceline::report

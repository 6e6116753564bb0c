// The fastest of several runs, by a definition that stands up: a run that ends clearly worse than another one
// is not called the fastest, nor one whose devices missed their paces or that diverged. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/records/stats/run_group.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

// A run may end worse than the best by this margin and still be the fastest.
inline constexpr double kAccuracyMargin = 0.01;  // an accuracy, of 1
inline constexpr double kOtherMargin = 0.02;     // a share of the best's loss, or of another metric

struct Ranking {
  // The policy that reaches the target first among those that end within the margin of the best; with several
  // seeds: on average, and with every seed. Nothing if there is none.
  std::optional<std::string> fastest;
  // The result in words: the fastest policy, or that there is none, or that it is open; the trade-off of each that was
  // faster; the policies left out. One sentence each, without its full stop.
  std::vector<std::string> verdict;
};

// `runs`: runs of one job, all with the same target, or none. It is open who is the fastest until all planned runs are
// over.
Ranking rank(const std::vector<Summary>& runs, const PlannedRuns& planned = {});

}  // namespace paceline::report

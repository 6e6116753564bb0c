// Which of several runs is the fastest, said in a way that holds: a run that ends clearly worse than another
// one is not called the fastest, nor one whose devices did not have the paces that they were to have. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/report/summary.h"

namespace paceline::report {

// A run may end so much worse than the best and still be the fastest.
inline constexpr double kAccuracyMargin = 0.01;  // of 1
inline constexpr double kOtherMargin = 0.02;     // of the best's loss, or of another metric

struct Ranking {
  // The policy that is the first to reach the target, among those that end within the margin of the best: of
  // several seeds, on average, and with every seed. Nothing where none did.
  std::optional<std::string> fastest;
  // That in words, or that nobody did; the trade-off of each that was faster; and who is left out. A sentence
  // each, without its full stop.
  std::vector<std::string> verdict;
};

// `runs`: of one job, all with the same target, or none.
Ranking rank(const std::vector<Summary>& runs);

}  // namespace paceline::report

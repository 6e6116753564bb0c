// The runs of one policy in a comparison: one, or one for each seed. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/records/stats/summary.h"

namespace paceline::report {

struct RunGroup {
  std::string policy;
  std::vector<const Summary*> runs;  // at least one; they outlive the group
};

// The number of runs that a comparison is to have: in all, and of each policy. 0: those that are there count as they
// are, over or not.
struct PlannedRuns {
  std::size_t all = 0;
  std::size_t each = 0;
};

// Groups in the order of their first runs.
std::vector<RunGroup> groups_of(const std::vector<Summary>& runs);

// Over the runs that have the value.
struct Spread {
  double mean = 0;
  double error = 0;  // the standard error of the mean; 0 if a single run has the value
  std::size_t count = 0;
};

using ValueOf = std::function<std::optional<double>(const Summary&)>;

// Nothing if no run has the value, or one has a value that is not finite.
std::optional<Spread> spread(const RunGroup& group, const ValueOf& value);
// The mean; nothing unless all runs have the value.
std::optional<double> mean_of_all(const RunGroup& group, const ValueOf& value);

}  // namespace paceline::report

#include "paceline/records/stats/run_group.h"

#include <algorithm>
#include <cmath>

#include "paceline/records/stats/standard_error.h"

namespace paceline::report {

std::vector<RunGroup> groups_of(const std::vector<Summary>& runs) {
  std::vector<RunGroup> groups;
  for (const Summary& run : runs) {
    auto mine = std::find_if(groups.begin(), groups.end(),
                             [&](const RunGroup& group) { return group.policy == run.run.policy; });
    if (mine == groups.end()) mine = groups.insert(groups.end(), {run.run.policy, {}});
    mine->runs.push_back(&run);
  }
  return groups;
}

std::optional<Spread> spread(const RunGroup& group, const ValueOf& value) {
  std::vector<double> values;
  for (const Summary* run : group.runs) {
    const std::optional<double> one = value(*run);
    if (one && std::isfinite(*one)) values.push_back(*one);
  }
  if (values.empty()) return std::nullopt;
  return Spread{mean_of(values), values.size() > 1 ? standard_error(values) : 0, values.size()};
}

std::optional<double> mean_of_all(const RunGroup& group, const ValueOf& value) {
  const std::optional<Spread> of_some = spread(group, value);
  return of_some && of_some->count == group.runs.size() ? std::optional(of_some->mean) : std::nullopt;
}

}  // namespace paceline::report

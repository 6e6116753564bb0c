#include "paceline/report/summary.h"

#include <algorithm>

namespace paceline::report {

std::int64_t Summary::replicas_live() const {
  return std::count_if(replicas.begin(), replicas.end(),
                       [](const ReplicaSummary& replica) { return replica.doing != Doing::kGone; });
}

std::optional<double> Summary::time_left_s() const {
  if (samples_per_s <= 0) return std::nullopt;
  return static_cast<double>(std::max<std::int64_t>(0, run.total_samples - samples)) / samples_per_s;
}

}  // namespace paceline::report

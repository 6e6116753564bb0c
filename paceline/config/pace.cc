#include "paceline/config/pace.h"

#include <algorithm>

namespace paceline::config {

Duration paced(const JobConfig& job, std::size_t replica, Time start, Duration compute) {
  const ReplicaConfig& place = job.replicas[replica];
  double seconds = place.pace_ms ? *place.pace_ms / 1000.0 : to_seconds(compute) * place.pace.value_or(1.0);
  for (const ChangeConfig& change : job.changes) {
    const bool mine = change.replica == static_cast<std::int64_t>(replica);
    if (mine && to_seconds(start) >= change.at_s && to_seconds(start) < change.until_s)
      seconds *= change.factor;
  }
  return std::max(compute, from_seconds(seconds));
}

}  // namespace paceline::config

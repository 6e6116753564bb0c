#include "paceline/records/stats/update_times.h"

#include <algorithm>

namespace paceline::report {

void UpdateTimes::add(const control::SideWork& work) {
  if (work.kind != control::SideWork::Kind::kUpdate) return;
  Sums& sums = servers_[work.server];
  const double ms = 1000 * to_seconds(work.took);
  const double more = static_cast<double>(work.members) - 1;
  ++sums.count;
  sums.x += more;
  sums.y += ms;
  sums.xx += more * more;
  sums.xy += more * ms;
}

std::vector<MeasuredUpdates> UpdateTimes::measured() const {
  std::vector<MeasuredUpdates> all;
  for (const auto& [server, sums] : servers_) {
    const auto n = static_cast<double>(sums.count);
    MeasuredUpdates& one = all.emplace_back(MeasuredUpdates{
        .server = server, .count = sums.count, .mean_ms = sums.y / n, .update_ms = sums.y / n});
    const double spread = n * sums.xx - sums.x * sums.x;
    if (spread <= 0) continue;
    // Measurements that hardly depend on the number of gradients may give a line through negative times.
    one.gradient_ms =
        std::clamp((n * sums.xy - sums.x * sums.y) / spread, 0.0, sums.x > 0 ? sums.y / sums.x : 0.0);
    one.update_ms = (sums.y - *one.gradient_ms * sums.x) / n;
  }
  return all;
}

}  // namespace paceline::report

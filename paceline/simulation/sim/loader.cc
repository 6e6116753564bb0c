#include "paceline/simulation/sim/loader.h"

#include <algorithm>
#include <utility>

namespace paceline::sim {

Time Loader::loaded(Time now, const control::Release& release, double sample_s) {
  std::erase_if(loads_, [&](const Load& load) { return load.begin > now; });
  if (!loads_.empty()) free_ = loads_.back().end;
  const std::vector<Load> begun = std::exchange(loads_, {});
  const auto keep_or_load = [&](const Lease& lease) {
    const auto same = [&](const Load& load) { return load.lease == lease; };
    if (const auto found = std::find_if(begun.begin(), begun.end(), same); found != begun.end()) {
      loads_.push_back(*found);
    } else {
      append(now, lease, sample_s);
    }
  };
  keep_or_load(release.lease);
  const Time there = loads_.back().end;
  for (const Lease& lease : release.ahead) keep_or_load(lease);
  return there;
}

void Loader::append(Time now, const Lease& lease, double sample_s) {
  const Time begin = std::max(now, free_);
  free_ = begin + bounded_seconds(sample_s * static_cast<double>(lease.size()));
  loads_.push_back({lease, begin, free_});
}

}  // namespace paceline::sim

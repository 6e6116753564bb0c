#include "paceline/decisions/policy/global_path.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::policy {

void GlobalPath::ordered(Version version, std::size_t members, Time now) {
  free_ = times_.end(members, now, free_);
  under_way_.push_back({version, members, now, free_ - late_});
}

void GlobalPath::completed(Version version, Time now) {
  PACELINE_CHECK(!under_way_.empty() && under_way_.front().version == version,
                 "version {} is complete out of turn", version);
  const UnderWay commit = under_way_.front();
  under_way_.pop_front();
  times_.learn(commit.members, commit.ordered, now, last_completion_);
  last_completion_ = now;
  // Later commits are expected to be as late, or as early, as this one was.
  const Duration later = now - (commit.expected + late_);
  late_ += later;
  free_ += later;
}

std::optional<Time> GlobalPath::free_soon(std::size_t members) const {
  if (idle()) return last_completion_;
  if (!times_.known()) return std::nullopt;
  return times_.send_at(members, free_);
}

Duration GlobalPath::queue(Time now) const {
  return idle() ? Duration::zero() : std::max(Duration::zero(), free_ - now);
}

}  // namespace paceline::policy

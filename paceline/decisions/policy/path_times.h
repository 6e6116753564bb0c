// The time that commits take on their way, learnt from when they are ordered and when they end [ours]. The
// time between, the span, has two parts. T_reduce(k) is the reduction among the k members. T is the time in
// which the commit keeps the way busy, and no other commit gets through. Commits end in order, so T shows
// when they follow each other closely: it is the time between two ends. The rest of the span is T_reduce(k).
//
// As long as no two commits have met, T counts as the whole span. That is safe, because the way looks busy
// for longer than it is. Then T shrinks: each commit is sent a little too early, which shows how early it
// could have been. O(1) each, except for the first commit of each number of members.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "paceline/base/time.h"

namespace paceline::policy {

class PathTimes {
 public:
  // A commit's way; the one before it ended at `before`.
  void learn(std::size_t members, Time ordered, Time ended, Time before);

  bool known() const { return each_.has_value(); }
  // T; 0 as long as nothing is known.
  Duration each() const { return from_seconds(each_.value_or(0)); }
  // T_reduce of a group of `members`; if no such group was seen, that of the nearest number seen.
  Duration reduce(std::size_t members) const;
  // The end of a commit that is ordered at `ordered` and finds the way free from `free` on.
  Time end(std::size_t members, Time ordered, Time free) const {
    return std::max(ordered + reduce(members), free) + each();
  }
  // The time at which to send a group, so that its reduction is done as the way gets free: a twentieth of T
  // before that.
  Time send_at(std::size_t members, Time free) const {
    return free - reduce(members) - from_seconds(0.05 * each_.value_or(0));
  }

 private:
  std::optional<double> span(std::size_t members) const;
  void find_nearest();

  std::optional<double> each_;                // seconds
  std::vector<std::optional<double>> spans_;  // indexed by members; learnt from commits that met no other
  std::vector<std::size_t> nearest_;          // for each number of members the nearest that has a span
};

}  // namespace paceline::policy

// The way of new weights back to the replicas of a commit. It is estimated from the times when commits are
// ordered and when their members say that they had the weights. Replicas that look ahead pull twice as much
// as they push, so with scarce links this way is the busy one. Costs are learnt, not configured [ours].
//
// A member says when it had its weights only when its next gradient is ready. So the information comes late
// and out of order, and the estimate for later commits starts from it. A fact costs O(1), or O(commits since)
// if the way differs from the estimate.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/policy/path_times.h"

namespace paceline::policy {

class ReturnPath {
 public:
  // Requires: versions are ordered one after the other.
  void ordered(Version version, std::size_t members, Time now);
  // A member of that commit had its weights at that time.
  void arrived(Version version, Time at);

  // The time at which to send a group of `members`, so that its weights find the way free: free −
  // T_reduce(k), and a twentieth of T before. Time::min() while nothing is known.
  Time free_soon(std::size_t members) const;

 private:
  struct Commit {
    std::size_t members;
    Time ordered;
    Time expected{};                 // the end
    std::optional<Time> ended = {};  // the latest time that a member told
    bool learnt = false;
  };
  void expect(Commit& commit);
  void learn(std::size_t index);
  void count_on_from(std::size_t index);

  PathTimes times_;
  Version first_{};             // version of commits_.front()
  std::deque<Commit> commits_;  // ordered by version; old ones are forgotten
  std::size_t told_ = 0;        // number of commits_ up to the last one that any member told of
  Time free_{};                 // expected
};

}  // namespace paceline::policy

// The clocks of the live replicas: who is slowest, who is fastest, and by how much. Every operation is
// O(log P). Part of a policy's state.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "paceline/base/ids.h"

namespace paceline::policy {

class ClockBoard {
 public:
  void join(ReplicaId replica, Clock clock);
  void leave(ReplicaId replica);
  // Requires: live, and `clock` is one more than before.
  void finish(ReplicaId replica, Clock clock);

  bool live(ReplicaId replica) const;
  // Requires of each: live replica(s).
  Clock clock(ReplicaId replica) const;
  Clock slowest() const { return by_clock_.begin()->first; }
  Clock fastest() const { return by_clock_.rbegin()->first; }
  // Of the slowest replicas the one with the lowest id.
  ReplicaId slowest_replica() const { return by_clock_.begin()->second; }
  // c[p] − min over live q of c[q].
  std::int64_t gap(ReplicaId replica) const { return clock(replica) - slowest(); }

  std::size_t size() const { return by_clock_.size(); }
  bool empty() const { return by_clock_.empty(); }

 private:
  static constexpr Clock kAbsent{-1};
  std::vector<Clock> clocks_;  // by replica id; kAbsent: not live
  std::set<std::pair<Clock, ReplicaId>> by_clock_;
};

// The replicas that wait for the slowest, most patient (lowest clock) first.
class HeldReplicas {
 public:
  void hold(Clock clock, ReplicaId replica) { held_.emplace(clock, replica); }
  void drop(Clock clock, ReplicaId replica) { held_.erase({clock, replica}); }
  // Takes out one whose clock is at most `limit`, if there is one.
  bool take_within(Clock limit, ReplicaId* replica);

 private:
  std::set<std::pair<Clock, ReplicaId>> held_;
};

}  // namespace paceline::policy

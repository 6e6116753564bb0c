// The clocks of the live replicas: who is slowest, who is fastest, and by how much. Every operation is
// O(log P). Part of a policy's state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "paceline/base/ids.h"
#include "paceline/decisions/policy/least_clock.h"

namespace paceline::policy {

class ClockBoard {
 public:
  void join(ReplicaId replica, Clock clock);
  void leave(ReplicaId replica);
  // Requires: the replica is live, and `clock` is one more than before.
  void finish(ReplicaId replica, Clock clock);

  bool live(ReplicaId replica) const { return clocks_.of(replica) != LeastClock::kNone; }
  // Each requires live replicas.
  Clock clock(ReplicaId replica) const;
  Clock slowest() const { return clocks_.least(); }
  Clock fastest() const { return Clock(-negated_.least().value()); }
  // The slowest replica; the one with the lowest id if several are equally slow.
  ReplicaId slowest_replica() const { return clocks_.whose(); }
  // c[p] − min over live q of c[q].
  std::int64_t gap(ReplicaId replica) const { return clock(replica) - slowest(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  void set(ReplicaId replica, Clock clock);

  LeastClock clocks_;
  LeastClock negated_;  // the least of these is the fastest
  std::size_t size_ = 0;
};

// The replicas that wait for the slowest, most patient (lowest clock) first.
class HeldReplicas {
 public:
  // Requires: it is not held.
  void hold(Clock clock, ReplicaId replica) { held_.set(replica, clock); }
  bool holds(ReplicaId replica) const { return held_.of(replica) != LeastClock::kNone; }
  // Does nothing if the replica is not held with this clock.
  void drop(Clock clock, ReplicaId replica);
  // Takes out a replica whose clock is at most `limit`, if there is one; the one with the lowest id if
  // several have that clock.
  bool take_within(Clock limit, ReplicaId* replica);

 private:
  LeastClock held_;
};

}  // namespace paceline::policy

// Finds the least of many clocks, and its replica: a tournament between neighbouring replica numbers, in
// which the lower clock wins each match. For ClockBoard and HeldReplicas.
//
// Every operation is O(log P) for numbers below P. A clock that goes up mostly costs O(1): only the matches
// that it had won are played again, and half of all clocks have won none.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "paceline/base/ids.h"

namespace paceline::policy {

class LeastClock {
 public:
  // The clock of a replica that has none.
  static constexpr Clock kNone{std::numeric_limits<Clock::rep>::max()};

  // kNone takes the replica's clock away. Memory grows with the largest number.
  void set(ReplicaId replica, Clock clock);
  Clock of(ReplicaId replica) const {
    const auto index = static_cast<std::size_t>(replica.value());
    return index < size_ ? winners_[size_ + index] : kNone;
  }

  // kNone if no replica has a clock.
  Clock least() const { return winners_[1]; }
  // The replica with the least clock; the one with the lowest id if several have it. Requires: a replica has
  // a clock.
  ReplicaId whose() const;

 private:
  void grow(std::size_t index);

  // A binary tree in an array: the match of nodes 2i and 2i + 1 is node i, the replicas are the last `size_`.
  std::size_t size_ = 1;
  std::vector<Clock> winners_{kNone, kNone};
};

}  // namespace paceline::policy

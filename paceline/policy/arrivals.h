// When the replicas that compute will be ready, told from how long each took before. Part of a policy's
// state.
//
// An interval is from release to ready as the policy sees it, so the way of the weights is in it; waiting is
// not. Its mean and variance are averages that move by a quarter of the difference [ours].
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"

namespace paceline::policy {

class Arrivals {
 public:
  struct Expected {
    Time at;      // the mean
    Time latest;  // two standard deviations later; who is not here by then is overdue
  };

  // Each O(log P). Requires of ready(): released.
  void released(ReplicaId replica, Time now);
  void ready(ReplicaId replica, Time now);
  void left(ReplicaId replica);

  // The next so many that are expected and not overdue, earliest first. Who was never ready is not expected.
  // O(most), and O(log P) once for each overdue one at the front.
  std::vector<Expected> coming(Time now, std::size_t most);

  // The mean of its intervals. Requires: it was ready and has not left.
  Duration interval(ReplicaId replica) const;

 private:
  struct Rhythm {
    Time released{};
    std::optional<double> mean;  // seconds
    double variance = 0;
    std::optional<Expected> expected;  // while it is in coming_
  };
  void forget_expected(ReplicaId replica, Rhythm& rhythm);

  std::map<ReplicaId, Rhythm> rhythms_;  // of the live ones
  std::set<std::pair<Time, ReplicaId>> coming_;
};

}  // namespace paceline::policy

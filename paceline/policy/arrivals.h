// Predicts when the replicas that compute will be ready, from how long each took before. Part of a policy's
// state.
//
// An interval is from release to ready as the policy sees it. So it includes the transfer of the weights, and
// not waiting. A replica is expected after the median of its last five intervals, give or take σ: 1.48 times
// the median of their differences from it, which is the standard deviation if they are normal [ours]. So a
// single iteration that takes five times as long has no effect, and a change of speed has an effect when it
// was seen three times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"

namespace paceline::policy {

class Arrivals {
 public:
  struct Expected {
    Time at;      // the time after the median interval
    Time latest;  // 2σ later; a replica that is not ready by then is overdue
  };

  // Each costs O(log P). ready() requires: the replica was released.
  void released(ReplicaId replica, Time now);
  void ready(ReplicaId replica, Time now);
  void left(ReplicaId replica);

  // The next replicas, at most `most`, that are expected by `until` and not overdue, earliest first. A
  // replica that was never ready is not expected. O(most), and O(log P) once for each overdue one at the
  // front.
  std::vector<Expected> coming(Time now, std::size_t most, Time until = Time::max());

  // The median of its last intervals. Requires: it was ready and has not left.
  Duration interval(ReplicaId replica) const;

 private:
  struct Rhythm {
    Time released{};
    std::array<double, 5> last{};  // the newest intervals, seconds; a ring
    std::int64_t seen = 0;
    double median = 0;                 // median of the intervals, seconds
    double sigma = 0;                  // standard deviation, seconds
    std::optional<Expected> expected;  // while it is in coming_
  };
  void forget_expected(ReplicaId replica, Rhythm& rhythm);

  Rhythm& rhythm(ReplicaId replica);

  std::vector<Rhythm> rhythms_;  // indexed by replica id; of a replica that is not live, an empty one
  std::map<std::pair<Time, ReplicaId>, Time> coming_;  // expected time to `latest`
};

}  // namespace paceline::policy

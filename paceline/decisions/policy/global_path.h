// The way of updates to the servers and into the weights. It is estimated from the orders that go in and the
// completions that come out. Costs are learnt, not configured [ours]. The grouping algorithms use these
// estimates. T, of path_times.h, is T_global here: the time for which a commit on its way keeps the servers
// busy. O(1) each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/policy/path_times.h"

namespace paceline::policy {

class GlobalPath {
 public:
  void ordered(Version version, std::size_t members, Time now);
  // Requires: ordered; versions complete in order.
  void completed(Version version, Time now);

  bool idle() const { return under_way_.empty(); }
  // The time at which to send a group of this size, so that its reduction is done when the servers can take
  // its push: free − T_reduce(k), and a twentieth of T_global earlier. If the path is idle, it is free now.
  // nullopt while no cost is known.
  std::optional<Time> free_soon(std::size_t members) const;
  // The time until the servers can take the next push.
  Duration queue(Time now) const;

  Duration global() const { return times_.each(); }
  Duration reduce(std::size_t members) const { return times_.reduce(members); }
  // The time from the order to the completion of a commit that meets no other: T_reduce(k) + T_global.
  Duration alone(std::size_t members) const { return reduce(members) + global(); }

 private:
  struct UnderWay {
    Version version;
    std::size_t members;
    Time ordered;
    Time expected;  // the time of completion, without late_
  };

  std::deque<UnderWay> under_way_;
  Time last_completion_{Time::min()};
  Time free_{};       // expected
  Duration late_{0};  // sum of how much later than expected completions came
  PathTimes times_;
};

}  // namespace paceline::policy

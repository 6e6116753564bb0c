// Predicts when the replicas that compute will be ready, from how long each took before. Part of a policy's
// state.
//
// An interval is from release to ready as the policy sees it. So it includes the transfer of the weights, and
// not waiting. A replica is expected after the median of its last five intervals, give or take σ: 1.48 times
// the median of their differences from it, which is the standard deviation if they are normal [ours]. So a
// single iteration that takes five times as long has no effect, and a change of speed has an effect when it
// was seen three times.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/policy/sorted_blocks.h"

namespace paceline::policy {

class Arrivals {
 public:
  struct Expected {
    Time at{};        // the time after the median interval
    Time latest{};    // 2σ later; a replica that is not ready by then is overdue
    Duration late{};  // σ·√(2/π): a replica that is due and not ready is expected this much later
    Duration wait(Time now) const { return std::max(at - now, late); }
  };

  // Each costs O(log P). ready() requires: the replica was released.
  void released(ReplicaId replica, Time now);
  void ready(ReplicaId replica, Time now);
  void left(ReplicaId replica);

  // The next replicas, at most `most`, that are expected by `until` and not overdue, earliest first. A
  // replica that was never ready is not expected. O(most), and O(log P) once for each overdue one at the
  // front.
  std::vector<Expected> coming(Time now, std::size_t most, Time until = Time::max());

  // The waits, at most `longest`, for those that coming() would give. In no order; in place of what was in
  // `found`.
  void waits(Time now, std::size_t most, Duration longest, std::vector<Duration>& found);

  // An upper bound of the numbers n for which n of those that coming(now, most) gives have a wait of at most
  // n·`each_s` seconds; 0: there is none. O(log P) for each replica that has become due or overdue since the last
  // call. Otherwise O(log P), O(most / 32) a few times, and O(n).
  std::size_t largest_within(Time now, double each_s, std::size_t most);

  // The median of its last intervals. Requires: it was ready and has not left.
  Duration interval(ReplicaId replica) const;

  // The arrivals that it looked at and the blocks of them that it counted, since the beginning. For tests.
  std::int64_t looked_at() const { return coming_.steps() + due_.steps(); }

 private:
  struct Coming {
    Expected expected;
    ReplicaId replica;
    friend bool operator<(const Coming& a, const Coming& b) {
      return a.expected.at < b.expected.at || (a.expected.at == b.expected.at && a.replica < b.replica);
    }
  };
  struct Due {
    Duration late;
    ReplicaId replica;
    friend bool operator<(const Due& a, const Due& b) {
      return a.late < b.late || (a.late == b.late && a.replica < b.replica);
    }
  };
  struct Rhythm {
    Time released{};
    std::array<double, 5> last{};  // the newest intervals, seconds; a ring
    std::int64_t seen = 0;
    double median = 0;                 // median of the intervals, seconds
    double sigma = 0;                  // standard deviation, seconds
    std::optional<Expected> expected;  // while it is in coming_
  };
  // A place behind all that are expected by that time.
  static Coming behind(Time time) { return {{.at = time + Duration(1)}, ReplicaId(0)}; }
  void forget_expected(ReplicaId replica, Rhythm& rhythm);
  void forget_overdue(Time now);
  void count_as_due(Time now);
  // Puts the waits of at most `longest` into near_: the `most_due` shortest of those that are due, and of the others
  // only those of the first `most_ahead`.
  void find_near(Time now, SortedBlocks<Coming>::Place ahead, Duration longest, std::size_t most_due,
                 std::size_t most_ahead);

  Rhythm& rhythm(ReplicaId replica);

  std::vector<Rhythm> rhythms_;  // indexed by replica id; of a replica that is not live, an empty one
  SortedBlocks<Coming> coming_;
  SortedBlocks<Due> due_;  // the part of coming_ that is expected by due_until_
  Time due_until_{Time::min()};
  // The times at which those of due_ are overdue, the first on top; also of some that are not in due_ any more.
  using OverdueAt = std::pair<Time, ReplicaId>;
  std::priority_queue<OverdueAt, std::vector<OverdueAt>, std::greater<>> overdue_at_;
  std::vector<Duration> near_;  // scratch memory of largest_within()
};

}  // namespace paceline::policy

// Dynamic stale synchronous parallel (Zhao, An, Liu, Chen, ICDCS 2019, algorithms 1 and 2): SSP with a range
// of thresholds sL..sU. A replica that would have to wait at sL, and is the fastest, may get r* extra
// iterations: as many as let it end closest to a moment when the slowest is predicted to be ready, so that it
// waits least.
//
// Two readings:
//  bounded (default) [ours]: the search is capped at sU − gap, and the release that grants counts as one of
//  the
//    r*. So sU bounds the gap and the paper's regret bound 4FL√(2(sL + rmax + 1)PT) applies. Intervals are
//    compute intervals, from release to ready.
//  as printed [the paper's]: no cap, r* + 1 iterations, and intervals from ready to ready. It grants again
//  and
//    again, so the gap grows without limit.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/policy/clock_board.h"
#include "paceline/policy/sync_policy.h"

namespace paceline::policy {

class Dssp final : public SyncPolicy {
 public:
  // Requires: 0 ≤ lower ≤ upper.
  Dssp(std::int64_t lower, std::int64_t upper, bool bounded)
      : lower_(lower), upper_(upper), bounded_(bounded) {}

  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  Bounds bounds() const override;

 private:
  // What is known of one replica's rhythm.
  struct Pace {
    Time last_ready{};
    Duration interval{0};      // 0: not known yet
    std::int64_t granted = 0;  // r[p]: extra iterations it may still start
    bool seen = false;         // has been ready since it joined
  };

  Pace& pace(ReplicaId replica) { return paces_[static_cast<std::size_t>(replica.value())]; }
  void learn(Time now, const Ready& fact);
  // True when the replica was released.
  bool try_release(ReplicaId replica, Orders& orders);
  std::int64_t extra_iterations(ReplicaId replica);
  void release_within_lower(Orders& orders);

  const std::int64_t lower_;
  const std::int64_t upper_;
  const bool bounded_;
  ClockBoard clocks_;
  HeldReplicas held_;
  std::vector<Pace> paces_;  // by replica id
};

// Algorithm 2: which multiple i ∈ 0..most of the fast replica's interval, from its latest ready time, lies
// closest to a predicted ready time of the slow one, slow_last + (k + 1)·slow_interval with k ∈ 0..rmax. The
// lowest i on ties. O(most + rmax). Requires: positive intervals.
std::int64_t closest_extra_iterations(Time fast_last, Duration fast_interval, Time slow_last,
                                      Duration slow_interval, std::int64_t most, std::int64_t rmax);

}  // namespace paceline::policy

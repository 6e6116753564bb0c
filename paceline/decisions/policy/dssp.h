// Dynamic stale synchronous parallel (Zhao, An, Liu, Chen, ICDCS 2019, algorithms 1 and 2): SSP with a range
// of thresholds sL..sU. The fastest replica, when it would have to wait at sL, may get r* extra iterations.
// r* is the number with which it ends closest to a moment when the slowest is predicted to be ready, so that
// it waits least.
//
// Three readings:
//  bounded (default) [ours]: the threshold in force never exceeds sU. SSP(s) releases a replica that is s
//    ahead, which is then ready s + 1 ahead. So the search is capped at sU + 1 − gap, and the release that
//    grants counts as one of the r*. The range includes its upper end, dssp:s-s gives SSP(s)'s orders, and
//    the paper's regret bound 4FL√(2(sL + rmax + 1)PT) applies. Intervals are compute intervals, from
//    release to ready.
//  as printed [the paper's]: no cap, r* + 1 iterations, and intervals from ready to ready. It grants
//    iterations again and again, so the gap grows without limit.
//  transient [ours]: no search. The threshold is sU for a replica whose iterations take at least three
//    quarters as long as those of the slowest in the long run, and sL for all others. The search grants too
//    little when slowness comes and goes: it asks for the fastest only, once, and from the last interval
//    alone, and when the slowest is overdue it grants no iteration. A wide range can make up for transient
//    slowness; with constant unequal speeds it only makes gradients older.
//
// Algorithm 1, line 2, sums gradients that are pushed at the same moment in one update. Here each fact is
// handled when it comes, and each gradient commits alone. The host chooses the order of facts of one moment.
// To sum them, every push would have to be held back until it is known that no other one comes. The
// difference does not matter: first in first out, lowest number first, highest number first, and deciding
// after all have come give the same iterations a second within the standard error (docs/results.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/clock_board.h"
#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::policy {

enum class DsspReading { kBounded, kPrinted, kTransient };

class Dssp final : public SyncPolicy {
 public:
  // Requires: 0 ≤ lower ≤ upper.
  Dssp(std::int64_t lower, std::int64_t upper, DsspReading reading)
      : lower_(lower), upper_(upper), reading_(reading) {}

  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  bool commits_all(std::size_t live) const override { return live == 1; }
  Bounds bounds() const override;

 private:
  // The known rhythm of one replica.
  struct Pace {
    Time last_ready{};
    Duration interval{0};       // 0: not known yet
    double mean_ns = 0;         // long-run mean of the intervals; transient only
    std::int32_t granted = 0;   // r[p]: extra iterations it may still start
    std::int32_t measured = 0;  // times it has been ready since it joined, as far as the long run counts
  };

  Pace& pace(ReplicaId replica) { return paces_[static_cast<std::size_t>(replica.value())]; }
  void learn(Time now, const Ready& fact);
  // Releases the replica on granted iterations, or grants it more. True if it was released.
  bool try_release_early(ReplicaId replica, Orders& orders);
  std::int64_t extra_iterations(ReplicaId replica);
  void release_or_hold(const Ready& fact, Orders& orders);
  void release_within_lower(Orders& orders);
  // Releases held replicas within sU that are about as fast as the slowest. `ready`: the replica that is
  // ready now; null: none. The others are checked when the slowest clock has changed, so that a fact costs
  // O(log n) on average.
  void release_alike(const ReplicaId* ready, Orders& orders);
  bool alike(const Pace& held, const Pace& slowest) const;

  const std::int64_t lower_;
  const std::int64_t upper_;
  const DsspReading reading_;
  ClockBoard clocks_;
  HeldReplicas held_;
  std::vector<Pace> paces_;  // indexed by replica id
  Clock released_to_{-1};    // the slowest clock when all replicas within the lower bound were released
  Clock looked_at_{-1};      // the slowest clock when all held replicas were looked at
};

// Algorithm 2: which multiple i ∈ 0..most of the fast replica's interval, from its latest ready time, lies
// closest to a predicted ready time of the slow one, slow_last + (k + 1)·slow_interval with k ∈ 0..rmax. The
// lowest i on ties. O(most + rmax). Requires: positive intervals,
// and times from 0 on.
std::int64_t closest_extra_iterations(Time fast_last, Duration fast_interval, Time slow_last,
                                      Duration slow_interval, std::int64_t most, std::int64_t rmax);

struct DsspSpec {
  static constexpr const char* kName = "dssp";
  static constexpr const char* kForm = "dssp:LOWER-UPPER";
  std::int64_t lower = 3;
  std::int64_t upper = 15;
  DsspReading reading = DsspReading::kBounded;

  static absl::StatusOr<DsspSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  friend bool operator==(const DsspSpec&, const DsspSpec&) = default;
};

}  // namespace paceline::policy

// Elastic bulk synchronous parallel (Zhao, Papagelis, An, Chen, Liu, Hu, ICDM 2019): a superstep lets each
// replica run its own number of iterations, then all meet at one barrier. So the fast replicas do not wait
// for the slow one after every iteration.
//
// A superstep:
//
//  Measure. After a barrier every gradient commits alone, until each live replica has been ready twice
//    [paper]. If a replica was ready R times by then (twice if R is 1), it waits for the others, so that R
//    bounds this phase too [ours].
//
//  Plan. From each one's last ready time R more are predicted, at its interval. ZipLine picks one of each, so
//    that they lie closest together. The pick of a replica is its quota, in iterations [paper].
//
//  Run. Until its quota every gradient of a replica commits alone. At its quota the replica is held with its
//    gradient uncommitted. When all are held, they commit together and are released together [paper:
//    "aggregated similarly to BSP"]. The use of a quota instead of a deadline is ours: the same facts in the
//    same order always meet at the same barrier.
//
// Our completions [ours]:
//
//  Intervals. An interval is the last compute time, from release to ready, so that it does not include
//    waiting. Optionally it is an average that moves towards the last one by a quarter of the difference.
//
//  Guard. A replica that is ready more than one of its own intervals later than predicted asks for a new
//    plan. The plan is made at the next Ready of a replica with a quota (which may be that replica), but at
//    most once in n Ready facts, for n live replicas. Held replicas stay where they are. The others get new
//    quotas, not below the iterations that they have finished or are running, and never above R from the
//    first plan. An iteration that is overdue is predicted for now.
//
//  Joiners. A replica that joins after the plan has no quota. It runs on, and is held when it is ready after
//    all replicas with quotas are held. As in BSP, the barrier waits for all that joined before it.
//
//  A single replica. If only one replica is left, it meets only itself: each of its iterations ends a
//  superstep.
//
// A fact costs O(log n), and the plans O(R log n) a fact on average.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/policy_text.h"
#include "paceline/decisions/policy/sync_policy.h"
#include "paceline/decisions/policy/zip_line.h"

namespace paceline::policy {

class ElasticBsp final : public SyncPolicy {
 public:
  // Requires: look_ahead ≥ 1. That is the paper's R.
  ElasticBsp(std::int64_t look_ahead, bool average) : look_ahead_(look_ahead), average_(average) {}

  void joined(Time now, const Joined& fact, Orders& orders) override;
  void left(Time now, const Left& fact, Orders& orders) override;
  void ready(Time now, const Ready& fact, Orders& orders) override;
  Bounds bounds() const override { return {.quota = look_ahead_}; }

 private:
  enum class Phase { kMeasure, kRun };

  struct Replica {
    Clock clock{};
    Time last_ready{};
    Duration interval{0};      // last or average; zero until it has been ready once
    std::int64_t readies = 0;  // since the barrier
    bool held = false;
    bool paused = false;   // has measured enough, and waits until all have
    bool planned = false;  // has a quota; only then the rest means something
    Clock start{};         // its clock when the first plan of the superstep was made
    Clock quota{};         // its clock at the barrier
    Duration step{0};      // the interval the plan counts with
    Time expected{};       // when the plan expects it to be ready next
  };

  void learn(Time now, const Ready& fact, Replica& mine) const;
  // The orders for a Ready in each phase.
  void measure(ReplicaId id, Replica& mine, Time now, Orders& orders);
  void run(ReplicaId id, Replica& mine, Time now, Orders& orders);

  void start_measuring();
  void start_run(Time now, Orders& orders);
  // Gives quotas to all replicas that are planned and not held. `earliest`: no computing replica is predicted
  // to be ready before this time. `arrived`: the replica that is ready now and may be held where it is; null:
  // none.
  void plan(Time earliest, const Replica* arrived);
  // The times at which a replica can come to a barrier; the first one at its present clock, if it `stays`.
  EvenTimes predict(const Replica& replica, Time earliest, bool stays) const;
  Duration step_of(const Replica& replica) const;
  void plan_again_if_late(Time now, Replica& mine);

  bool at_barrier(const Replica& mine) const;
  void hold(Replica& mine, Orders& orders);
  void meet_if_all_held(Orders& orders);

  const std::int64_t look_ahead_;
  const bool average_;
  std::map<ReplicaId, Replica> replicas_;  // the live ones
  Phase phase_ = Phase::kMeasure;
  std::size_t unmeasured_ = 0;  // while measuring: those that were ready less than twice
  std::size_t on_the_way_ = 0;  // while running: those with a quota that are not held
  std::size_t held_ = 0;
  std::size_t since_plan_ = 0;  // Ready facts
  bool late_ = false;           // a replica was late since the last plan
};

struct ElasticBspSpec {
  static constexpr const char* kName = "elastic-bsp";
  static constexpr const char* kForm = "elastic-bsp:R";
  std::int64_t look_ahead = 15;
  bool average = false;

  static absl::StatusOr<ElasticBspSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  friend bool operator==(const ElasticBspSpec&, const ElasticBspSpec&) = default;
};

}  // namespace paceline::policy

// How many samples each replica gets of every batch, so that all take equally long: uneven data parallelism
// (JDMP's data assignment where every replica is one device; LB-BSP, Chen and others 2020). Learnt from what
// iterations take, and so for any policy: where replicas wait for each other the waiting goes, and where they
// do not none is staler than the others.
//
// A replica's time is taken to be proportional to its samples, as of its newest iterations; that it has
// changed for good is believed once two in a row say so. Where part of its time is not proportional (α > 0)
// the shares still settle where all take equally long, after a few rounds instead of one.
//
// What always holds: the shares add up to the batches of all active replicas, but that nobody gets less than
// one sample. O(log P) an iteration on average: shares are computed once for so many iterations as there are
// replicas, and when one comes or goes.
//
// A planner that knows more than speeds (memory, start-up costs, budgets) may decide. What it decided holds
// as long as it is for exactly the replicas that are active.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/planner/estimates.h"

namespace paceline::control {

class DataShares {
 public:
  // `batch`: its part of all samples, and its share as long as nothing is known.
  void joined(ReplicaId replica, std::int64_t batch);
  // It comes back, or forget() follows.
  void paused(ReplicaId replica);
  void forget(ReplicaId replica);
  void finished(ReplicaId replica, std::int64_t samples, Duration compute);
  // From the next share on, until something else is decided. 0: it was to have none, and gets one sample.
  void decided(ReplicaId replica, std::int64_t samples);
  // Of its next iteration. Requires: joined.
  std::int64_t next(ReplicaId replica);

 private:
  struct Member {
    std::int64_t batch = 0;  // 0: not active
    std::int64_t share = 0;
    std::optional<planner::ClippedMean> ms_per_sample;  // one slow iteration is not a slow replica
    std::optional<std::int64_t> decided;
  };
  Member& member(ReplicaId replica);
  void assign();
  // Whether what was decided is for those that are active; they then have it.
  bool take_decided();

  std::vector<Member> members_;  // by replica id
  std::int64_t active_ = 0;
  std::int64_t until_next_ = 0;  // iterations on these shares
};

}  // namespace paceline::control

// How many samples each replica gets of every batch, so that all take equally long: uneven data parallelism
// (JDMP's data assignment where every replica is one device; LB-BSP, Chen and others 2020). The shares are
// learnt from the times of iterations, so they work with any policy: if replicas wait for each other, the
// waiting disappears, and if they do not, no replica is staler than the others.
//
// A replica's time is assumed to be proportional to its samples, or to their weight (work_speeds.h), from its newest
// iterations. A lasting change counts when two iterations in a row show it. If part of its time is not proportional (α > 0), the shares
// still settle where all take equally long, after a few rounds instead of one.
//
// Invariant: if no planner decides, the shares add up to the batches of all active replicas, except that each replica
// gets at least one sample, or more if the job says so. O(log P) an iteration on average: the shares are computed once in as many iterations as there
// are replicas, when a replica comes or goes, and after the first iteration of one that came while others computed.
//
// A planner that knows more than speeds (memory, start-up costs, budgets) may decide instead. Its decision holds as long
// as it names all active replicas. If a replica leaves, nobody gets its share before the next decision, because the
// others may have no memory for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/work_speeds.h"

namespace paceline::control {

class DataShares {
 public:
  // `least`: the fewest samples of a share, for models that cannot compute on fewer.
  explicit DataShares(std::int64_t least = 1) : least_(least) {}

  // From the next share on. No effect if it is as large already.
  void raise_least(std::int64_t least);
  // `batch`: its part of all samples, and its share as long as its speed is not known.
  void joined(ReplicaId replica, std::int64_t batch);
  // The replica may come back with joined(); else call forget().
  void paused(ReplicaId replica);
  void forget(ReplicaId replica);
  // `weight`: nothing if the program gives none.
  void finished(ReplicaId replica, std::int64_t samples, Duration compute,
                std::optional<double> weight = std::nullopt);
  // From the next share on, until the next decision. 0: the plan gives it none, and it gets the fewest samples.
  void decided(ReplicaId replica, std::int64_t samples);
  // Samples of its next iteration. Requires: joined.
  std::int64_t next(ReplicaId replica);

 private:
  struct Member {
    std::int64_t batch = 0;  // 0: not active
    std::int64_t share = 0;
    std::optional<std::int64_t> decided;
    bool has_begun = false;   // true once it got a share after it joined
    bool came_later = false;  // true until then if others had begun when it joined
  };
  Member& member(ReplicaId replica);
  void assign();
  // Whether the decision is for all active replicas; if so, it is applied.
  bool take_decided();

  std::int64_t least_;
  WorkSpeeds speeds_;
  std::vector<Member> members_;  // index: replica id
  std::int64_t active_ = 0;
  std::int64_t until_next_ = 0;  // iterations on these shares
};

}  // namespace paceline::control

// The outputs of the Controller.
#pragma once

#include <absl/container/inlined_vector.h>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/controller_state.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/planned_run.h"
#include "paceline/decisions/policy/sync_policy.h"

namespace paceline::control {

struct CommitMember {
  ReplicaId replica;
  Clock clock;
  Version base;
  Lease lease;
  // This gradient's factor in the sum: its share, damped by 1 / (1 + λτ) if the job asks for it.
  double weight = 0;
  // Its share of the commit: b_i / B_C, or that of the weights that the program gave. It is also the factor of its
  // batch-norm statistics.
  double share = 0;
  friend bool operator==(const CommitMember&, const CommitMember&) = default;
};

// One entry of the commit log: everything a shard needs to make version v of version v − 1.
struct CommitRecord {
  Version version;
  absl::InlinedVector<CommitMember, 1> members;  // ascending by replica
  std::int64_t samples = 0;                      // B_C
  std::int64_t nominal = 0;                      // B: the live replicas' batches together
  std::int64_t committed_before = 0;             // global samples before this commit
  double learning_rate = 0;                      // η of the schedule, for a full bulk update
  double fraction = 1;                           // f: B_C / B; 1 for a whole round of a bulk-synchronous
                                                 // policy or of a lone replica, and with scale = "update"
  bool of_differences = false;                   // members contribute how far they moved the weights by
                                                 // steps of their own, not gradients; f is 1
  bool keep_for_evaluation = false;              // keep version v until the evaluator has seen it
  std::optional<ControllerState> checkpoint;     // set: write version v to disk, and this beside it
  policy::Reason why;

  std::int64_t committed_after() const { return committed_before + samples; }
  friend bool operator==(const CommitRecord&, const CommitRecord&) = default;
};

struct Release {
  ReplicaId replica;
  Clock clock;      // the iteration to run
  Version version;  // pull this or a later one
  Lease lease;
  policy::Reason why;
  // For a replica that looks ahead or steps by itself: the current rate of the schedule, for a full bulk
  // update. For a replica that looks ahead: how many commits are expected between its pull and its own commit
  // (τ̂), and what fraction of the bulk each of them is (f̂). For a replica that steps by itself: into how
  // many steps to cut the lease. For all others: these defaults.
  double learning_rate = 0;
  double staleness = 0;
  double fraction = 1;
  std::int64_t steps = 0;
  // The samples that are reserved for its later iterations, in their order, so that it can load them
  // meanwhile. This is a hint: a reservation becomes a lease only with a release, and another lease may come
  // instead.
  std::vector<Lease> ahead{};

  bool plain() const { return learning_rate == 0 && staleness == 0 && fraction == 1 && steps == 0; }
  friend bool operator==(const Release&, const Release&) = default;
};

struct Discard {
  ReplicaId replica;
  Clock clock;
  policy::Reason why;
  friend bool operator==(const Discard&, const Discard&) = default;
};

// There are no samples for the replica now; it may be released later if another replica's samples come back.
struct Park {
  ReplicaId replica;
  friend bool operator==(const Park&, const Park&) = default;
};

struct WakeAt {
  Time at;
  friend bool operator==(const WakeAt&, const WakeAt&) = default;
};

// Every sample is committed, or a stop was asked for. This is the last order.
struct Finish {
  std::string why;
  FinishCause cause = FinishCause::kStopped;
  friend bool operator==(const Finish&, const Finish&) = default;
};

using Order = std::variant<CommitRecord, Release, Discard, Park, WakeAt, Finish, SearchPlan, PlanAdopted,
                           NoPlan, BatchDone>;

// Whether only planned runs have this order.
inline bool of_planning(const Order& order) {
  return std::holds_alternative<SearchPlan>(order) || std::holds_alternative<PlanAdopted>(order) ||
         std::holds_alternative<NoPlan>(order) || std::holds_alternative<BatchDone>(order);
}

}  // namespace paceline::control

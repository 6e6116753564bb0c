// The replicas of a run from the coordinator's view: the workers of each, and its progress in an iteration.
// Pure.
//
// A replica is formed from the free workers of its place in the plan, one for each device. They take their
// roles one after the other. Then the servers map its gradient. When all servers have it, the replica is
// whole, and the Controller may hear of it. It is dissolved when one of its workers goes; the others are free
// again.
//
// Invariant: a worker is in one replica at most, and no two replicas ever have the same number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/stage_links.h"
#include "paceline/decisions/coordinator/worker_table.h"
#include "paceline/decisions/planner/plan.h"

namespace paceline::coordinator {

struct LiveReplica {
  ReplicaId id;
  std::size_t place = 0;                      // place in the plan
  std::vector<Worker*> workers;               // in the plan's order of devices
  std::vector<planner::PlannedStage> stages;  // stages of the workers; the end of the last one is not set
  StageLinks links;                           // links between workers of different hosts
  std::vector<RoleTaken> taken;               // answers of the workers that have their roles, in order
  bool told_servers = false;     // the servers know of its gradient; set once all workers have roles
  std::set<ServerId> mapped_by;  // servers that have mapped its gradient
  bool whole = false;            // all servers have mapped its gradient
  bool joined = false;           // the Controller has heard of it
  Lease lease{};                 // lease of the iteration under way
  std::int64_t steps = 0;        // local steps of the iteration under way; 0: its policy has none
  // reports of the workers that are done with the iteration under way
  std::vector<std::optional<WorkerReady>> done;
};

class ReplicaTable {
 public:
  // `new_key`: for links between devices.
  ReplicaTable(planner::Plan plan, std::function<std::string()> new_key);

  const planner::Plan& plan() const { return plan_; }
  // Forms replicas by another plan from now on. Requires: there is no replica.
  void follow(planner::Plan plan);

  // Forms the replica that waited for this worker; null if another worker of it is missing or busy.
  LiveReplica* form(const Worker& worker, WorkerTable& workers);
  // Makes the replica's workers free. Requires: there is such a replica.
  LiveReplica dissolve(ReplicaId replica);

  // Takes a number that no replica has, or will have.
  ReplicaId of_nobody() { return std::exchange(next_replica_, next_replica_.next()); }

  // Null if the replica is not here.
  LiveReplica* find(ReplicaId replica);
  std::map<ReplicaId, LiveReplica>& all() { return replicas_; }
  // Whether every place of the plan has a replica, and all replicas are whole.
  bool all_whole() const;

  // A worker has done its part of an iteration. Returns the fact when all workers of the replica have.
  // Returns nothing if that replica is gone. Errors: a part that was not asked for.
  absl::StatusOr<std::optional<control::ReplicaReady>> done(const Worker& worker, const WorkerReady& ready);

 private:
  ReplicaId new_replica(std::size_t place);

  planner::Plan plan_;
  const std::function<std::string()> new_key_;
  std::map<ReplicaId, LiveReplica> replicas_;
  // Places that ever had a replica. After a change of plan: every place.
  std::set<std::size_t> places_taken_;
  ReplicaId next_replica_;
};

// The worker's place among the replica's workers. Requires: it is one of them.
std::size_t place_of(const LiveReplica& replica, const Worker& worker);
// The stage of the worker at this place.
std::size_t stage_at(const LiveReplica& replica, std::size_t place);
// The hosts of the replica's workers, each once.
std::set<HostPlace> hosts_of(const LiveReplica& replica);

}  // namespace paceline::coordinator

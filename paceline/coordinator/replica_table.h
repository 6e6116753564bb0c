// The replicas of a run as the coordinator sees them: the workers of each, and its progress in an iteration.
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
#include "paceline/control/facts.h"
#include "paceline/coordinator/stage_links.h"
#include "paceline/coordinator/worker_table.h"
#include "paceline/planner/plan.h"

namespace paceline::coordinator {

struct LiveReplica {
  ReplicaId id;
  std::size_t place = 0;                      // in the plan
  std::vector<Worker*> workers;               // in the plan's order of devices
  std::vector<planner::PlannedStage> stages;  // that they have, but for where the last one ends
  StageLinks links;                           // between those of different hosts
  std::vector<wire::RoleTaken> taken;         // what those said that have their roles, in their order
  bool told_servers = false;                  // of its gradient, once all have
  std::set<ServerId> mapped_by;               // that have its gradient
  bool whole = false;                         // all have
  bool joined = false;                        // the Controller has heard of it
  Lease lease{};                              // of the iteration under way
  std::vector<std::optional<wire::WorkerReady>> done;  // of the iteration under way, by worker
};

class ReplicaTable {
 public:
  // `new_key`: for links between devices.
  ReplicaTable(planner::Plan plan, std::function<std::string()> new_key);

  const planner::Plan& plan() const { return plan_; }
  // Replicas are formed by another plan from now on. Requires: there is none.
  void follow(planner::Plan plan);

  // The replica that this worker was missing for; null when another one still is, or is busy.
  LiveReplica* form(const Worker& worker, WorkerTable& workers);
  // Its workers are free from now on. Requires: there is such a replica.
  LiveReplica dissolve(ReplicaId replica);

  // A number for one that is not to be: no replica has it, or will.
  ReplicaId of_nobody() { return std::exchange(next_replica_, next_replica_.next()); }

  // Null when it is not here.
  LiveReplica* find(ReplicaId replica);
  std::map<ReplicaId, LiveReplica>& all() { return replicas_; }
  // Every place of the plan has a replica, and all are.
  bool all_whole() const;

  // A worker has done its part of an iteration. Returns the fact when all workers of the replica have.
  // Returns nothing if that replica is gone. Errors: a part that nobody asked for.
  absl::StatusOr<std::optional<control::ReplicaReady>> done(const Worker& worker,
                                                            const wire::WorkerReady& ready);

 private:
  ReplicaId new_replica(std::size_t place);

  planner::Plan plan_;
  const std::function<std::string()> new_key_;
  std::map<ReplicaId, LiveReplica> replicas_;
  std::set<std::size_t> places_taken_;  // ever; all of them, of a later plan
  ReplicaId next_replica_;
};

// Its place among the workers. Requires: it is one of them.
std::size_t place_of(const LiveReplica& replica, const Worker& worker);
// Which stage that one has.
std::size_t stage_at(const LiveReplica& replica, std::size_t place);
// Of its workers, each once.
std::set<HostPlace> hosts_of(const LiveReplica& replica);

}  // namespace paceline::coordinator

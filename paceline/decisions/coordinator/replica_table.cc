#include "paceline/decisions/coordinator/replica_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::coordinator {

namespace {

bool free(const Worker* worker) { return worker != nullptr && worker->joined && !worker->replica; }

// One fact from the parts of an iteration: it is as old as its oldest part, and took as long as the longest.
// Loading and pulling count only the time that they took on every device, because a device that has its
// samples and weights waits for the others. The devices of the last stage know the loss, each of its own
// micro-batches.
control::ReplicaReady together(const LiveReplica& replica) {
  const auto& parts = replica.done;
  const WorkerReady& last = *parts.back();
  control::ReplicaReady fact{.replica = replica.id,
                             .clock = last.clock,
                             .base = last.base,
                             .metrics = last.metrics,
                             .loading = last.loading,
                             .pulling = last.pulling};
  if (last.weight) fact.weight = *last.weight;
  if (last.data_end) fact.data_end = *last.data_end;
  for (std::size_t place = replica.stages.back().first; place < parts.size(); ++place)
    fact.loss += parts[place]->loss;
  for (const auto& part : parts) {
    fact.base = std::min(fact.base, part->base);
    fact.compute = std::max(fact.compute, part->compute);
    fact.worked.push_back(part->worked);
    fact.loading = std::min(fact.loading, part->loading);
    fact.pulling = std::min(fact.pulling, part->pulling);
  }
  return fact;
}

}  // namespace

std::size_t place_of(const LiveReplica& replica, const Worker& worker) {
  const auto found = std::find(replica.workers.begin(), replica.workers.end(), &worker);
  PACELINE_CHECK(found != replica.workers.end(), "{} is not in replica {}", worker.name, replica.id);
  return static_cast<std::size_t>(found - replica.workers.begin());
}

std::size_t stage_at(const LiveReplica& replica, std::size_t place) {
  std::size_t stage = 0;
  while (stage + 1 < replica.stages.size() && replica.stages[stage + 1].first <= place) ++stage;
  return stage;
}

std::set<HostPlace> hosts_of(const LiveReplica& replica) {
  std::set<HostPlace> hosts;
  for (const Worker* worker : replica.workers) hosts.insert(worker->host);
  return hosts;
}

ReplicaTable::ReplicaTable(planner::Plan plan, std::function<std::string()> new_key)
    : plan_(std::move(plan)),
      new_key_(std::move(new_key)),
      next_replica_(static_cast<std::int32_t>(plan_.replicas.size())) {}

void ReplicaTable::follow(planner::Plan plan) {
  PACELINE_CHECK(replicas_.empty(), "{} replicas are of the old plan", replicas_.size());
  plan_ = std::move(plan);
  for (std::size_t place = 0; place < plan_.replicas.size(); ++place) places_taken_.insert(place);
}

bool ReplicaTable::all_whole() const {
  return replicas_.size() == plan_.replicas.size() &&
         std::all_of(replicas_.begin(), replicas_.end(), [](const auto& one) { return one.second.whole; });
}

LiveReplica* ReplicaTable::form(const Worker& worker, WorkerTable& workers) {
  const std::int32_t device = worker.device.value();
  for (std::size_t place = 0; place < plan_.replicas.size(); ++place) {
    const auto& devices = plan_.replicas[place].devices;
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) continue;
    std::vector<Worker*> members;
    for (const std::int32_t one : devices) members.push_back(workers.at(DevicePlace(one)));
    if (!std::all_of(members.begin(), members.end(), free)) return nullptr;
    const ReplicaId id = new_replica(place);
    std::vector<HostPlace> hosts;
    for (Worker* member : members) {
      member->replica = id;
      hosts.push_back(member->host);
    }
    LiveReplica& formed = replicas_[id];
    formed.id = id;
    formed.place = place;
    formed.done.resize(members.size());
    formed.workers = std::move(members);
    formed.stages = planner::stages_of(plan_.replicas[place]);
    formed.links = stage_links(id, formed.stages, hosts, new_key_);
    return &formed;
  }
  return nullptr;
}

// The first to take a place has its number, so that runs are alike however the processes race at the start.
ReplicaId ReplicaTable::new_replica(std::size_t place) {
  const bool first = places_taken_.insert(place).second;
  return first ? ReplicaId(static_cast<std::int32_t>(place))
               : std::exchange(next_replica_, next_replica_.next());
}

LiveReplica ReplicaTable::dissolve(ReplicaId replica) {
  const auto found = replicas_.find(replica);
  PACELINE_CHECK(found != replicas_.end(), "there is no replica {} to dissolve", replica);
  for (Worker* worker : found->second.workers) worker->replica.reset();
  return std::move(replicas_.extract(found).mapped());
}

LiveReplica* ReplicaTable::find(ReplicaId replica) {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::optional<control::ReplicaReady>> ReplicaTable::done(const Worker& worker,
                                                                        const WorkerReady& ready) {
  // The worker may have said so before it heard that the replica has ended.
  if (!worker.replica || *worker.replica != ready.replica) return std::nullopt;
  LiveReplica& replica = *find(*worker.replica);
  auto& part = replica.done[place_of(replica, worker)];
  if (!replica.joined || part) return absl::FailedPreconditionError("ready out of turn");
  part = ready;
  for (const auto& other : replica.done) {
    if (!other) return std::nullopt;
    if (other->clock != ready.clock) {
      return absl::FailedPreconditionError(
          fmt::format("ready with iteration {}, another device with {}", ready.clock, other->clock));
    }
  }
  const control::ReplicaReady fact = together(replica);
  std::fill(replica.done.begin(), replica.done.end(), std::nullopt);
  return fact;
}

}  // namespace paceline::coordinator

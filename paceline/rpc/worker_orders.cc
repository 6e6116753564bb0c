#include "paceline/rpc/worker_orders.h"

#include "paceline/rpc/wire.h"

namespace paceline::rpc {

wire::WorkerOrder role_order(const LiveReplica& replica, const planner::Plan& plan,
                             const std::string& previous_link) {
  wire::WorkerOrder order;
  wire::Role& role = *order.mutable_role();
  role.set_replica(replica.id.value());
  role.set_stage(static_cast<std::int32_t>(replica.roles_taken));
  for (const std::int32_t cut : plan.replicas[replica.place].cuts) role.add_cuts(cut);
  role.set_micro_batch(plan.micro_batch);
  role.set_gradient_path(replica.stages.front()->attached->gradient_path());
  role.set_previous_link(previous_link);
  return order;
}

wire::WorkerOrder dissolve_order(ReplicaId replica) {
  wire::WorkerOrder order;
  order.mutable_dissolve()->set_replica(replica.value());
  return order;
}

wire::WorkerOrder release_order(const control::Release& release, Time now) {
  wire::WorkerOrder order;
  wire::WorkerRelease& message = *order.mutable_release();
  message.set_clock(release.clock.value());
  message.set_version(release.version.value());
  *message.mutable_lease() = to_wire(release.lease);
  message.set_at_ns(now.time_since_epoch().count());
  message.set_learning_rate(release.learning_rate);
  message.set_staleness(release.staleness);
  message.set_fraction(release.fraction);
  message.set_steps(release.steps);
  return order;
}

}  // namespace paceline::rpc

#include "paceline/coordinator/worker_orders.h"

#include "paceline/wire/wire.h"

namespace paceline::coordinator {

namespace {

// As the end that connects to that stage, where it said.
wire::StageLink connecting(const wire::StageLink& link, const LiveReplica& replica, std::size_t listener) {
  wire::StageLink end = link;
  end.set_address(replica.taken[listener].address());
  end.set_to(replica.stages[listener]->name);
  return end;
}

void add_links(wire::Role& role, const LiveReplica& replica, std::size_t stage) {
  const StageLinks& links = replica.links;
  if (links.previous[stage])
    *role.mutable_previous() = connecting(*links.previous[stage], replica, stage - 1);
  if (links.home[stage]) *role.mutable_home() = connecting(*links.home[stage], replica, 0);
  if (stage + 1 < links.previous.size() && links.previous[stage + 1])
    *role.mutable_next() = other_end(*links.previous[stage + 1], replica.stages[stage + 1]->name);
  if (stage > 0) return;
  for (std::size_t other = 0; other < links.home.size(); ++other) {
    if (links.home[other]) *role.add_gradients() = other_end(*links.home[other], replica.stages[other]->name);
  }
}

}  // namespace

wire::WorkerOrder role_order(const LiveReplica& replica, const planner::Plan& plan) {
  wire::WorkerOrder order;
  wire::Role& role = *order.mutable_role();
  const std::size_t stage = replica.taken.size();
  role.set_replica(replica.id.value());
  role.set_stage(static_cast<std::int32_t>(stage));
  for (const std::int32_t cut : plan.replicas[replica.place].cuts) role.add_cuts(cut);
  role.set_micro_batch(plan.micro_batch);
  if (!replica.links.home[stage]) role.set_gradient_path(replica.stages.front()->attached->gradient_path());
  if (stage > 0 && !replica.links.previous[stage]) role.set_previous_path(replica.taken.back().next_path());
  add_links(role, replica, stage);
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
  *message.mutable_lease() = wire::to_wire(release.lease);
  message.set_at_ns(now.time_since_epoch().count());
  message.set_learning_rate(release.learning_rate);
  message.set_staleness(release.staleness);
  message.set_fraction(release.fraction);
  message.set_steps(release.steps);
  for (const Lease& lease : release.ahead) *message.add_ahead() = wire::to_wire(lease);
  return order;
}

}  // namespace paceline::coordinator

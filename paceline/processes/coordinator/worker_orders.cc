#include "paceline/processes/coordinator/worker_orders.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "paceline/formats/wire/wire.h"

namespace paceline::coordinator {

namespace {

// The limit is that long because policies predict hundreds of iterations from one.
constexpr Duration kLongestCompute = std::chrono::days(30);

// The link in the form for the end that connects to the device.
wire::StageLink connecting(const wire::StageLink& link, const LiveReplica& replica, std::size_t listener) {
  wire::StageLink end = link;
  end.set_address(replica.taken[listener].address());
  end.set_to(replica.workers[listener]->name);
  return end;
}

// The turns of a neighbouring stage's devices that one of this stage has micro-batches in common with.
std::vector<std::size_t> met_by(const planner::PlannedStage& stage, std::size_t turn,
                                const planner::PlannedStage& neighbour) {
  std::vector<std::size_t> turns;
  for (std::size_t other = 0; other < neighbour.width; ++other) {
    if (meet(turn, stage.width, other, neighbour.width)) turns.push_back(other);
  }
  return turns;
}

void add_next(wire::Role& role, const LiveReplica& replica, std::size_t stage, std::size_t turn) {
  const planner::PlannedStage &own = replica.stages[stage], &behind = replica.stages[stage + 1];
  for (const std::size_t other : met_by(own, turn, behind)) {
    wire::StageWay& way = *role.add_next();
    way.set_turn(static_cast<std::int32_t>(other));
    const std::size_t device = behind.first + other;
    if (const auto& link = replica.links.previous[device][turn])
      *way.mutable_link() = other_end(*link, replica.workers[device]->name);
  }
}

void add_previous(wire::Role& role, const LiveReplica& replica, std::size_t stage, std::size_t turn) {
  const planner::PlannedStage &own = replica.stages[stage], &before = replica.stages[stage - 1];
  for (const std::size_t other : met_by(own, turn, before)) {
    wire::StageWay& way = *role.add_previous();
    way.set_turn(static_cast<std::int32_t>(other));
    const std::size_t device = before.first + other;
    if (const auto& link = replica.links.previous[own.first + turn][other]) {
      *way.mutable_link() = connecting(*link, replica, device);
    } else {
      const std::vector<std::size_t> behind = met_by(before, other, own);
      const auto entry = std::find(behind.begin(), behind.end(), turn) - behind.begin();
      way.set_path(replica.taken[device].next_paths(static_cast<int>(entry)));
    }
  }
}

// Whether that device's part of the gradient is sent to the first one: it cannot write it there, or another
// one of its stage does.
bool goes_home(const LiveReplica& replica, std::size_t device) {
  return replica.links.home[device].has_value() || device > replica.stages[stage_at(replica, device)].first;
}

void add_gradient(wire::Role& role, const LiveReplica& replica, std::size_t device) {
  if (device == 0) {
    for (std::size_t other = 1; other < replica.workers.size(); ++other) {
      if (!goes_home(replica, other)) continue;
      wire::StageWay& way = *role.add_gradients();
      way.set_turn(static_cast<std::int32_t>(other - replica.stages[stage_at(replica, other)].first));
      if (const auto& link = replica.links.home[other])
        *way.mutable_link() = other_end(*link, replica.workers[other]->name);
    }
  } else if (!goes_home(replica, device)) {
    role.set_gradient_path(replica.workers.front()->attached->gradient_path());
  } else if (const auto& link = replica.links.home[device]) {
    *role.mutable_home()->mutable_link() = connecting(*link, replica, 0);
  } else {
    int entry = 0;
    for (std::size_t other = 1; other < device; ++other) entry += goes_home(replica, other) ? 1 : 0;
    role.mutable_home()->set_path(replica.taken.front().gradient_paths(entry));
  }
}

}  // namespace

wire::WorkerOrder role_order(const LiveReplica& replica, const planner::Plan& plan) {
  wire::WorkerOrder order;
  wire::Role& role = *order.mutable_role();
  const std::size_t device = replica.taken.size(), stage = stage_at(replica, device);
  const std::size_t turn = device - replica.stages[stage].first;
  role.set_replica(replica.id.value());
  role.set_stage(static_cast<std::int32_t>(stage));
  role.set_turn(static_cast<std::int32_t>(turn));
  for (const planner::PlannedStage& one : replica.stages) {
    if (one.first > 0) role.add_cuts(one.begin);
    role.add_widths(static_cast<std::int32_t>(one.width));
  }
  role.set_micro_batch(plan.micro_batch);
  if (stage > 0) add_previous(role, replica, stage, turn);
  if (stage + 1 < replica.stages.size()) add_next(role, replica, stage, turn);
  add_gradient(role, replica, device);
  return order;
}

absl::Status check_taken(const wire::Role& role, const wire::RoleTaken& taken) {
  const auto over_link = [](const wire::StageWay& way) { return way.has_link(); };
  const bool listens = std::any_of(role.next().begin(), role.next().end(), over_link) ||
                       std::any_of(role.gradients().begin(), role.gradients().end(), over_link);
  const bool all = taken.next_paths_size() == role.next_size() &&
                   taken.gradient_paths_size() == role.gradients_size() &&
                   (!listens || !taken.address().empty());
  if (all) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "took a role with {} and {} channels, and an address of {} bytes; other devices need {} and {}{}",
      taken.next_paths_size(), taken.gradient_paths_size(), taken.address().size(), role.next_size(),
      role.gradients_size(), listens ? ", and an address" : ""));
}

absl::Status check_ready(const wire::WorkerReady& ready) {
  if (ready.worked_ns() < 0 || ready.worked_ns() > ready.compute_ns()) {
    return absl::InvalidArgumentError(
        fmt::format("worked for {} ns of {}", ready.worked_ns(), ready.compute_ns()));
  }
  if (Duration(ready.compute_ns()) > kLongestCompute) {
    return absl::InvalidArgumentError(
        fmt::format("said that an iteration took {} s", to_seconds(Duration(ready.compute_ns()))));
  }
  if (ready.loading_ns() < 0 || ready.pulling_ns() < 0 || ready.loading_ns() > ready.compute_ns() ||
      ready.pulling_ns() > ready.compute_ns() - ready.loading_ns()) {
    return absl::InvalidArgumentError(fmt::format("waited {} ns for samples and {} ns for weights, of {}",
                                                  ready.loading_ns(), ready.pulling_ns(),
                                                  ready.compute_ns()));
  }
  if (!plausible(Metrics(ready.metrics().begin(), ready.metrics().end())))
    return absl::InvalidArgumentError("sent metrics that no program can have sent");
  if (ready.has_weight() && !(std::isfinite(ready.weight()) && ready.weight() >= 0))
    return absl::InvalidArgumentError(fmt::format("gave its gradient the weight {}", ready.weight()));
  if (!std::isfinite(ready.norm()) || ready.norm() < 0)
    return absl::InvalidArgumentError("sent a gradient of an impossible norm");
  return absl::OkStatus();
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

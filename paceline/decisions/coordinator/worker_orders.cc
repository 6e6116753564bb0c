#include "paceline/decisions/coordinator/worker_orders.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace paceline::coordinator {

namespace {

// The limit is that long because policies predict hundreds of iterations from one.
constexpr Duration kLongestCompute = std::chrono::days(30);

// The link in the form for the end that connects to the device.
StageLink connecting(const StageLink& link, const LiveReplica& replica, std::size_t listener) {
  StageLink end = link;
  end.address = replica.taken[listener].address;
  end.to = replica.workers[listener]->name;
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

void add_next(Role& role, const LiveReplica& replica, std::size_t stage, std::size_t turn) {
  const planner::PlannedStage &own = replica.stages[stage], &behind = replica.stages[stage + 1];
  for (const std::size_t other : met_by(own, turn, behind)) {
    StageWay& way = role.next.emplace_back();
    way.turn = static_cast<std::int32_t>(other);
    const std::size_t device = behind.first + other;
    if (const auto& link = replica.links.previous[device][turn])
      way.link = other_end(*link, replica.workers[device]->name);
  }
}

void add_previous(Role& role, const LiveReplica& replica, std::size_t stage, std::size_t turn) {
  const planner::PlannedStage &own = replica.stages[stage], &before = replica.stages[stage - 1];
  for (const std::size_t other : met_by(own, turn, before)) {
    StageWay& way = role.previous.emplace_back();
    way.turn = static_cast<std::int32_t>(other);
    const std::size_t device = before.first + other;
    if (const auto& link = replica.links.previous[own.first + turn][other]) {
      way.link = connecting(*link, replica, device);
    } else {
      const std::vector<std::size_t> behind = met_by(before, other, own);
      const auto entry = std::find(behind.begin(), behind.end(), turn) - behind.begin();
      way.path = replica.taken[device].next_paths[static_cast<std::size_t>(entry)];
    }
  }
}

// Whether that device's part of the gradient is sent to the first one: it cannot write it there, or another
// one of its stage does.
bool goes_home(const LiveReplica& replica, std::size_t device) {
  return replica.links.home[device].has_value() || device > replica.stages[stage_at(replica, device)].first;
}

void add_gradient(Role& role, const LiveReplica& replica, std::size_t device) {
  if (device == 0) {
    for (std::size_t other = 1; other < replica.workers.size(); ++other) {
      if (!goes_home(replica, other)) continue;
      StageWay& way = role.gradients.emplace_back();
      way.turn = static_cast<std::int32_t>(other - replica.stages[stage_at(replica, other)].first);
      if (const auto& link = replica.links.home[other])
        way.link = other_end(*link, replica.workers[other]->name);
    }
  } else if (!goes_home(replica, device)) {
    role.gradient_path = replica.workers.front()->attached->gradient_path;
  } else if (const auto& link = replica.links.home[device]) {
    role.home.emplace().link = connecting(*link, replica, 0);
  } else {
    std::size_t entry = 0;
    for (std::size_t other = 1; other < device; ++other) entry += goes_home(replica, other) ? 1u : 0u;
    role.home.emplace().path = replica.taken.front().gradient_paths[entry];
  }
}

}  // namespace

Role next_role(const LiveReplica& replica, const planner::Plan& plan) {
  Role role{.replica = replica.id};
  const std::size_t device = replica.taken.size(), stage = stage_at(replica, device);
  const std::size_t turn = device - replica.stages[stage].first;
  role.stage = static_cast<std::int32_t>(stage);
  role.turn = static_cast<std::int32_t>(turn);
  for (const planner::PlannedStage& one : replica.stages) {
    if (one.first > 0) role.cuts.push_back(one.begin);
    role.widths.push_back(static_cast<std::int32_t>(one.width));
  }
  role.micro_batch = plan.micro_batch;
  if (stage > 0) add_previous(role, replica, stage, turn);
  if (stage + 1 < replica.stages.size()) add_next(role, replica, stage, turn);
  add_gradient(role, replica, device);
  return role;
}

absl::Status check_taken(const Role& role, const RoleTaken& taken) {
  const auto over_link = [](const StageWay& way) { return way.link.has_value(); };
  const bool listens = std::any_of(role.next.begin(), role.next.end(), over_link) ||
                       std::any_of(role.gradients.begin(), role.gradients.end(), over_link);
  const bool all = taken.next_paths.size() == role.next.size() &&
                   taken.gradient_paths.size() == role.gradients.size() &&
                   (!listens || !taken.address.empty());
  if (all) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "took a role with {} and {} channels, and an address of {} bytes; other devices need {} and {}{}",
      taken.next_paths.size(), taken.gradient_paths.size(), taken.address.size(), role.next.size(),
      role.gradients.size(), listens ? ", and an address" : ""));
}

absl::Status check_ready(const WorkerReady& ready) {
  constexpr Duration kNone = Duration::zero();
  if (ready.worked < kNone || ready.worked > ready.compute) {
    return absl::InvalidArgumentError(
        fmt::format("worked for {} ns of {}", ready.worked.count(), ready.compute.count()));
  }
  if (ready.compute > kLongestCompute) {
    return absl::InvalidArgumentError(
        fmt::format("said that an iteration took {} s", to_seconds(ready.compute)));
  }
  if (ready.loading < kNone || ready.pulling < kNone || ready.loading > ready.compute ||
      ready.pulling > ready.compute - ready.loading) {
    return absl::InvalidArgumentError(fmt::format("waited {} ns for samples and {} ns for weights, of {}",
                                                  ready.loading.count(), ready.pulling.count(),
                                                  ready.compute.count()));
  }
  if (!plausible(ready.metrics))
    return absl::InvalidArgumentError("sent metrics that no program can have sent");
  if (ready.weight && !control::is_weight(*ready.weight)) {
    return absl::InvalidArgumentError(
        fmt::format("gave its gradient the weight {}; write a number from 0 to {:g}", *ready.weight,
                    control::kMostWeight));
  }
  if (!std::isfinite(ready.norm) || ready.norm < 0)
    return absl::InvalidArgumentError("sent a gradient of an impossible norm");
  return absl::OkStatus();
}

}  // namespace paceline::coordinator

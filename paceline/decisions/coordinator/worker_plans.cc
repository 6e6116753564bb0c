// The plans of a run that plans anew, and a run that begins or goes on without workers of its plan.
#include "paceline/decisions/coordinator/worker_membership.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator {

void WorkerMembership::take(const PlanFound& found) {
  if (!course_.open()) return;
  tell(found.result);
  // Roles wait for the search for the first plan.
  if (course_.open() && course_.start() != nullptr && !course_.controller()->searching()) form_missing();
  begin_with_those_here();
}

// The orders of a fact are carried out first. A plan that is followed gives other facts, and their orders may
// have another plan: it has its turn here too.
void WorkerMembership::follow_plans() {
  while (!plans_.empty()) {
    const auto next = std::move(plans_.front());
    plans_.pop_front();
    std::visit([this](const auto& one) { follow(one); }, next);
  }
}

// A replica that was just released gives its samples back: it has hardly begun.
void WorkerMembership::follow(const control::PlanAdopted& adopted) {
  // A replica that left for want of memory comes again with fewer samples.
  if (planner::same_stages(adopted.plan, replicas_.plan())) return form_missing();
  const std::string why = "re-planned: " + adopted.why;
  while (!replicas_.all().empty()) leave(replicas_.dissolve(replicas_.all().begin()->first), why);
  if (!course_.open()) return;
  replicas_.follow(adopted.plan);
  form_missing();
  out_.tell_and_remember(adopted.line);
}

void WorkerMembership::form_missing() {
  for (const planner::PlannedReplica& planned : replicas_.plan().replicas) {
    const Worker* worker = workers_.at(DevicePlace(planned.devices.front()));
    const LiveReplica* replica = worker == nullptr ? nullptr : replicas_.form(*worker, workers_);
    if (replica != nullptr) give_role(*replica);
  }
}

void WorkerMembership::give_up_without_replicas(SteadyTime::duration listened) {
  const bool someone_missing = !workers_.missing().empty() || !processes_.servers.missing().empty();
  if (!idle_.is_over(course_.training() && joined_replicas() == 0 && someone_missing, listened)) return;
  course_.lose_server(std::nullopt,
                      fmt::format("no replica has been here for {} s", options_.job.host_patience_s));
}

void WorkerMembership::begin_without(const Start::Absent& absent) {
  if (!processes_.servers.told_to_start()) {
    const bool any_host_empty = std::ssize(workers_.hosts()) < options_.job.hosts;
    if (any_host_empty) return course_.lose_server(std::nullopt, absent.why + ", and a host has no worker");
    // Weights in cards wait for all who may have one.
    return course_.start_servers_if_ready();
  }
  course_.start()->begin_without(absent);
  for (const DevicePlace device : absent.devices) {
    if (!course_.plans_anew() || !course_.open()) break;
    gone_before_start_.erase(device);
    tell(control::DeviceLeft{device.value()});
  }
  begin_with_those_here();
}

void WorkerMembership::tell_of_gone_before_start() {
  if (!course_.training()) return;
  for (const DevicePlace device : std::exchange(gone_before_start_, {}))
    tell(control::DeviceLeft{device.value()});
}

void WorkerMembership::begin_with_those_here() {
  Start* start = course_.start();
  if (start == nullptr || !start->begins_without() || course_.controller()->searching()) return;
  const Start::Absent absent = start->take_absent();
  const std::int64_t here = replicas_here();
  if (here == 0) return course_.lose_server(std::nullopt, absent.why + ", and no replica is whole");
  out_.tell_and_remember(absent.why + "; the run begins without");
  const std::int64_t to_come = here - joined_replicas();
  const std::int64_t wanted = std::ssize(options_.job.plan.replicas) - start->told_of() - to_come;
  const std::vector<std::string> names = workers_.names(absent.devices);
  for (std::int64_t i = 0; i < wanted; ++i)
    tell_of_nobody(names[std::min(static_cast<std::size_t>(i), names.size() - 1)], absent.why);
}

// The replicas of the plan whose workers are all here; all replicas of the plan, if they join together.
std::int64_t WorkerMembership::replicas_here() const {
  const auto& planned = replicas_.plan().replicas;
  if (course_.plans_anew()) return std::ssize(planned);
  const auto here = [this](std::int32_t device) { return workers_.here(DevicePlace(device)); };
  return std::count_if(planned.begin(), planned.end(), [&](const auto& replica) {
    return std::all_of(replica.devices.begin(), replica.devices.end(), here);
  });
}

std::int64_t WorkerMembership::joined_replicas() const {
  const auto& all = replicas_.all();
  return std::count_if(all.begin(), all.end(), [](const auto& one) { return one.second.joined; });
}

// The Controller, which waits for as many as were planned: one more has come and gone.
void WorkerMembership::tell_of_nobody(const std::string& name, const std::string& why) {
  const ReplicaId nobody = replicas_.of_nobody();
  absl::Status told = tell_controller(control::ReplicaJoined{nobody, name, 1});
  told.Update(tell_controller(control::ReplicaLeft{nobody, why}));
  PACELINE_CHECK(told.ok(), "{}", message_of(told));
}

}  // namespace paceline::coordinator

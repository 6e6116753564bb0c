// The waiting of an attempt: which processes have been silent for too long, which ones it waits for, and how
// long.
#include "paceline/processes/coordinator/attempt.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/start_patience.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator {

void Attempt::give_up_silent() {
  for (const auto& [peer, why] : workers_.silent(at_)) {
    out_.give_up(peer, why);
    remove_worker(peer, why);
  }
  if (const auto silent = servers_.silent(at_); silent && !disconnecting()) {
    if (servers_.keeps(silent->server)) {
      servers_.send_back(silent->server, silent->why);
      miss_server(silent->server, silent->why);
    } else {
      servers_.give_up(silent->server);
      lose_server(silent->server, silent->why);
    }
  }
  if (!disconnecting() && evaluator_.silent(at_)) {
    evaluator_.give_up("it was silent for too long");
    lose_evaluator();
  }
}

// A job goes back to its start with all its hosts, as long as they may come. This host is here.
void Attempt::give_up_hosts() {
  const bool waiting = options_.job.hosts > 1 && phase_ == Phase::kStarting;
  const std::chrono::duration<double> waited = hearing_.listened();
  if (waiting && !options_.again) return end_without_hosts(waited);
  const double patience_s = options_.hosts_start
                                ? std::max<double>(kStartPatience.count(), options_.job.host_patience_s)
                                : options_.job.host_patience_s;
  if (!waiting || servers_.all_here() || waited.count() < patience_s) return;
  for (const HostRank host : missing_hosts()) {
    if (host != options_.host) lost_hosts_.push_back(host);
  }
  if (lost_hosts_.empty()) return;
  go_back(fmt::format("host {} did not come back within {} s; going on without it",
                      fmt::join(lost_hosts_, ", host "), patience_s));
}

// People start the hosts of a new run, minutes apart maybe.
void Attempt::end_without_hosts(std::chrono::duration<double> waited) {
  const std::vector<HostRank> missing = missing_hosts();
  if (missing.empty() || waited < kStartPatience) return;
  fail(absl::UnavailableError(
      fmt::format("host {} has not come within {} s; is `paceline node` running there, "
                  "and does a firewall let it reach this host?",
                  fmt::join(missing, ", host "), kStartPatience.count())));
}

std::vector<HostRank> Attempt::missing_hosts() const {
  std::vector<HostRank> missing;
  for (const ServerId server : servers_.ids()) {
    if (!servers_.here(server)) missing.push_back(servers_.rank(server));
  }
  return missing;
}

// Workers that died are started again only with the next attempt.
void Attempt::give_up_waiting_for_replicas() {
  const auto& all = replicas_.all();
  const bool any = std::any_of(all.begin(), all.end(), [](const auto& one) { return one.second.joined; });
  const bool idle = training() && !any && !missing().empty();
  if (!idle_.is_over(idle, hearing_.listened())) return;
  lose_server(std::nullopt, fmt::format("no replica has been here for {} s", options_.job.host_patience_s));
}

// A worker that comes later joins the run.
void Attempt::begin_without_missing() {
  const bool waits = options_.again && !options_.only_look_without && controller_ != nullptr &&
                     phase_ == Phase::kStarting && servers_.all_here() && workers_.size() > 0;
  const std::vector<DevicePlace> missing = missing_.overdue(missing_devices(), waits, hearing_.listened());
  if (missing.empty()) return;
  std::vector<std::string> names;
  for (const DevicePlace device : missing) names.push_back(device_name(device));
  const std::string why =
      fmt::format("{} did not come within {} s", fmt::join(names, ", "), options_.job.host_patience_s);
  if (!servers_.told_to_start()) {
    if (!every_host_has_a_worker()) lose_server(std::nullopt, why + ", and a host has no worker");
    return;
  }
  missing_.give_up(missing);
  absent_ = Absent{names, why};
  for (const DevicePlace device : missing) {
    if (!plans_anew() || ending()) break;
    gone_before_start_.erase(device);
    const absl::Status told = tell_controller(control::DeviceLeft{device.value()});
    PACELINE_CHECK(told.ok(), "{}", message_of(told));
  }
  begin_with_those_here();
}

// The planner hears of them only now, because until the start they could have come back. A plan with one of
// them would wait in vain.
void Attempt::tell_of_gone_before_start() {
  if (!training()) return;
  for (const DevicePlace device : std::exchange(gone_before_start_, {})) {
    const absl::Status told = tell_controller(control::DeviceLeft{device.value()});
    PACELINE_CHECK(told.ok(), "{}", message_of(told));
  }
}

void Attempt::begin_with_those_here() {
  if (!absent_ || controller_->searching() || ending()) return;
  const auto [names, why] = *std::exchange(absent_, std::nullopt);
  const std::int64_t here = replicas_here();
  if (here == 0) return lose_server(std::nullopt, why + ", and no replica is whole");
  out_.tell_and_remember(why + "; the run begins without");
  const auto& all = replicas_.all();
  const std::int64_t to_come =
      here - std::count_if(all.begin(), all.end(), [](const auto& one) { return one.second.joined; });
  const std::int64_t wanted = std::ssize(options_.job.parallel.plan.replicas) - told_of_ - to_come;
  for (std::int64_t i = 0; i < wanted; ++i)
    tell_of_nobody(names[std::min(static_cast<std::size_t>(i), names.size() - 1)], why);
}

bool Attempt::every_host_has_a_worker() const {
  std::set<HostPlace> hosts;
  for (const auto& [peer, worker] : workers_.all()) hosts.insert(worker.host);
  return std::ssize(hosts) == options_.job.hosts;
}

// The replicas of the plan whose workers are all here; all replicas of the plan, if they join together.
std::int64_t Attempt::replicas_here() const {
  const auto& planned = replicas_.plan().replicas;
  if (plans_anew()) return std::ssize(planned);
  const auto here = [this](std::int32_t device) { return workers_.here(DevicePlace(device)); };
  return std::count_if(planned.begin(), planned.end(), [&](const auto& replica) {
    return std::all_of(replica.devices.begin(), replica.devices.end(), here);
  });
}

// The Controller, which waits for as many as were planned: one more has come and gone.
void Attempt::tell_of_nobody(const std::string& name, const std::string& why) {
  ++told_of_;
  const ReplicaId nobody = replicas_.of_nobody();
  absl::Status told = tell_controller(control::ReplicaJoined{nobody, name, 1});
  told.Update(tell_controller(control::ReplicaLeft{nobody, why}));
  PACELINE_CHECK(told.ok(), "{}", message_of(told));
}

bool Attempt::all_awaited_servers_here() const {
  const std::vector<HostRank> without = options_.only_look_without.value_or(std::vector<HostRank>{});
  for (const ServerId server : servers_.ids()) {
    const bool awaited = std::find(without.begin(), without.end(), servers_.rank(server)) == without.end();
    if (awaited && !servers_.here(server)) return false;
  }
  return true;
}

void Attempt::end_look() {
  if (!options_.only_look_without || phase_ != Phase::kStarting) return;
  if (awaits_copy_ || (vote_ && !all_awaited_servers_here())) return;
  go_back(vote_ ? kNoWholeVersion : "the servers have nothing newer");
}

}  // namespace paceline::coordinator

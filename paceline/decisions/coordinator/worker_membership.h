// The membership of workers in a run: how they come and go, the replicas that they form, and the plans by which they
// form them. This class makes the facts that the Controller takes. Pure.
//
// If plans may change, replicas join the run together, when all replicas of the plan are formed, so that no
// round is less than a batch. When the remaining devices cannot hold the model, the run ends after a
// checkpoint.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include <absl/status/status.h>

#include "paceline/decisions/coordinator/contributions.h"
#include "paceline/decisions/coordinator/course.h"
#include "paceline/decisions/coordinator/early_gradients.h"
#include "paceline/decisions/coordinator/heartbeat_reports.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

class WorkerMembership {
 public:
  // The references outlive this.
  WorkerMembership(const AttemptOptions& options, Processes& processes, Course& course, Outbox& out);

  void take(const WorkerSaid& said);
  void take(const PlanFound& found);
  // Its stream has ended.
  void leave(WorkerPeer peer) { remove(peer, "its stream ended"); }
  // The worker is wrong, and is not wanted any more.
  void send_away(WorkerPeer peer, const std::string& why);
  // The same, and no later attempt lets it in. Its replica leaves with its stream.
  void ban(const Worker& worker, const std::string& why);
  // Gives workers up that are silent, now or once the next commit is not expected any more.
  void give_up_silent();
  // No commit is expected at this moment.
  void give_up_silent_now();
  // Gives a run up that has had no replica for too long. Workers that died are started again only with the next
  // attempt. `listened`: see Hearing.
  void give_up_without_replicas(SteadyTime::duration listened);
  // Begins a later attempt without workers that did not come in time. Requires: it is starting.
  void begin_without(const Start::Absent& absent);
  // The planner hears of devices that are gone only with the first tick of the training, because until the start they
  // could have come back. A plan with one of them would wait in vain.
  void tell_of_gone_before_start();

  // Tells the Controller, which then has its orders carried out, and follows plans that are among them.
  absl::Status tell_controller(decltype(control::Fact::what) what);
  // A plan that the Controller has adopted, or that there is none, is followed after the orders of the same fact.
  void follow_later(control::PlanAdopted adopted) { plans_.emplace_back(std::move(adopted)); }
  void follow_later(control::NoPlan none) { plans_.emplace_back(std::move(none)); }

  // Reports the memory and traffic of a process.
  void note_process(const std::string& name, const Heartbeat& beat) {
    heartbeats_.note_process(name, beat, course_.now());
  }
  // A process on that host sent a heartbeat.
  absl::Status heard(const std::string& name, HostPlace host, const Heartbeat& beat);
  // The server has mapped a replica's gradient, or cannot.
  absl::Status mapped(ServerId server, const ServerMapped& mapped);
  // All servers have started.
  void send_boards();
  // The Controller did not take a gradient of this replica.
  void refused(ReplicaId replica, const absl::Status& why);

  EarlyGradients& early() { return early_; }
  const Contributions& contributions() const { return contributions_; }

 private:
  void on_hello(WorkerPeer peer, const std::string& name, const std::string& from);
  absl::Status on_message(Worker& worker, const WorkerMessage& message);
  absl::Status on_attached(Worker& worker, const WorkerAttached& attached);
  absl::Status on_joined(Worker& worker);
  // The memory that a plan may fill on the worker's device, if the job does not say it and the worker does; else 0.
  std::int64_t memory_of(const Worker& worker) const;
  absl::Status on_role_taken(Worker& worker, const RoleTaken& taken);
  absl::Status on_ready(const Worker& worker, const WorkerReady& ready);
  // An error: the plan stays as it is, and the worker is sent away.
  absl::Status on_out_of_memory(const Worker& worker, const OutOfMemory& said);
  // An error: larger batches would not help, and the worker is sent away.
  absl::Status on_too_few(const Worker& worker, const TooFew& said);
  absl::Status learn_job(const Worker& worker, const WorkerAttached& attached);
  absl::Status check_first_weights(const Worker& worker, const WorkerAttached& attached);
  HostRank rank_of(const Worker& worker) const;
  bool counts(const Worker& worker, const WorkerReady& ready);
  void send_early_if_it_waits();
  void discard(const Worker& worker, const std::string& why);
  void send_boards(Worker& worker);
  void give_role(const LiveReplica& replica);
  std::string name_of(const planner::PlannedReplica& planned) const;
  absl::Status join_those_that_are_whole();
  std::int64_t joined_replicas() const;
  // `least_batch`: control::ReplicaLeft has it.
  void remove(WorkerPeer peer, const std::string& why,
              std::optional<std::int64_t> least_batch = std::nullopt);
  LiveReplica take_out(const Worker& worker, std::string& why);
  void leave(const LiveReplica& replica, const std::string& why,
             std::optional<std::int64_t> least_batch = std::nullopt);

  void follow_plans();
  // Forms the replicas of the plan whose workers are all free.
  void form_missing();
  void follow(const control::PlanAdopted& adopted);
  void follow(const control::NoPlan& none) { course_.stop_without_plan(none.why); }
  void begin_with_those_here();
  std::int64_t replicas_here() const;
  void tell_of_nobody(const std::string& name, const std::string& why);
  // Tells a Controller that cannot refuse this fact.
  void tell(decltype(control::Fact::what) what);

  const AttemptOptions& options_;
  WorkerTable& workers_;
  ReplicaTable& replicas_;
  Processes& processes_;
  Course& course_;
  Outbox& out_;
  HeartbeatReports heartbeats_;
  Contributions contributions_;
  EarlyGradients early_;
  bool gives_up_silent_ = false;             // once no commit is expected
  Patience idle_;                            // while it trains with no replica at all
  std::set<DevicePlace> gone_before_start_;  // devices that joined first: the planner counts on them
  std::deque<std::variant<control::PlanAdopted, control::NoPlan>> plans_;  // ordered, and not yet followed
};

}  // namespace paceline::coordinator

// One attempt at a job, from its coordinator's view: it takes events and gives actions, and all transitions
// between its phases (phase.h) are in attempt_phases.cc. Pure: time is a field of each event, and there is no
// other input. The Controller decides about commits and releases; the attempt decides which processes belong
// to the run, and how it goes on when one is lost.
//
// A run goes through these phases: workers attach and say what their model and data are → the servers start
// from the first worker's initial weights or from a checkpoint → workers join, and take their roles in
// replicas → facts and orders → the last evaluation and checkpoint → a disconnect to all.
//
// If plans may change, replicas join the run together, when all replicas of the plan are formed, so that no
// round is less than a batch. When the remaining devices cannot hold the model, the run ends after a
// checkpoint.
//
// If shards are kept twice and a server is lost, the attempt takes and orders nothing more; the run goes back
// when the versions of the other servers are written (Replication). The same happens before the start, when
// servers come that have newer versions of an earlier attempt than its checkpoints (RecoveryVote).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/data_order.h"
#include "paceline/base/places.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/coordinator/contributions.h"
#include "paceline/processes/coordinator/early_gradients.h"
#include "paceline/processes/coordinator/evaluations.h"
#include "paceline/processes/coordinator/evaluator_session.h"
#include "paceline/processes/coordinator/events.h"
#include "paceline/processes/coordinator/first_weights.h"
#include "paceline/processes/coordinator/job_facts.h"
#include "paceline/processes/coordinator/link_watch.h"
#include "paceline/processes/coordinator/missed_servers.h"
#include "paceline/processes/coordinator/phase.h"
#include "paceline/processes/coordinator/recovery_vote.h"
#include "paceline/processes/coordinator/replica_table.h"
#include "paceline/processes/coordinator/replication.h"
#include "paceline/processes/coordinator/restart.h"
#include "paceline/processes/coordinator/run_checkpoints.h"
#include "paceline/processes/coordinator/server_fleet.h"
#include "paceline/processes/coordinator/timed_controller.h"
#include "paceline/processes/coordinator/waiting.h"
#include "paceline/processes/coordinator/worker_table.h"

namespace paceline::coordinator {

struct AttemptOptions {
  config::JobConfig job;
  std::string job_toml;
  std::optional<Restart> restart{};
  // The job has been begun before: processes that are lost at the start are waited for too.
  bool again = false;
  // The job's launcher has just been started. All hosts may be starting, one after the other.
  bool hosts_start = false;
  HostRank host{};                      // host of this process and the evaluator
  std::string attempt{};                // name of this attempt
  std::optional<CutShort> cut_short{};  // set if an earlier attempt recorded more than the restart has
  // Workers that earlier attempts gave up, and why. They are not let in.
  std::map<std::string, std::string> given_up{};
  // The attempt does not train: the run goes back as soon as the servers' versions are written, or turn out
  // to be lost. It does not wait for these hosts.
  std::optional<std::vector<HostRank>> only_look_without{};
  // The only host that sees the run folder; nothing: all do.
  std::optional<HostRank> folder_on{};
  // Servers keep everything in memory until RestartKept, instead of dropping it for the checkpoint of the
  // restart.
  bool awaits_copy = false;
  // A file in the run folder that the servers of other hosts look for; empty: they look for none.
  std::string mark_file{};
  std::string mark_text{};
  // Makes a random key for one direction of a link.
  std::function<std::string()> new_key{};
};

class Attempt {
 public:
  Attempt(AttemptOptions options, SteadyTime start);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Takes an event and returns the actions in order. There are no more actions after End.
  std::vector<Action> take(Event event);

  Phase phase() const { return phase_; }
  // The run has failed, and can go on from its last checkpoint in another attempt: no process got a
  // disconnect.
  bool can_go_on() const { return phase_ == Phase::kWentBack; }
  // True if the run trains, or has trained.
  bool started() const { return controller_ != nullptr && controller_->started(); }
  // The newest version that a process may have seen: everything after the checkpoint that the run goes on
  // from is lost.
  Version seen() const;
  // Hosts that were waited for long enough: the run goes on without them.
  const std::vector<HostRank>& lost_hosts() const { return lost_hosts_; }
  // The version that an evaluation out of turn would measure now. Errors: FailedPrecondition if there is no
  // such version, or no evaluator.
  absl::StatusOr<Version> next_to_measure() const;
  // Workers that were given up because of their gradients, and why.
  const std::map<std::string, std::string>& wrong_workers() const { return contributions_.wrong_workers(); }
  // The phase, for people.
  std::string phase_in_words() const;
  // The processes for which a run waits after all its training; empty: none, or it still trains.
  std::string waits_for() const;
  // The missing processes of the job: "server0", "w2".
  std::vector<std::string> missing() const;
  // The job's time; 0 before the data are known.
  Time time(SteadyTime at) const { return controller_ == nullptr ? Time{} : controller_->time(at); }
  // Why the run could not go on, if it could not.
  const absl::Status& result() const { return result_.ok() ? no_plan_ : result_; }
  // The first stop, if the job is not done: for example because the command of a host was interrupted.
  std::optional<StopWanted> interrupted() const;

 private:
  // Workers.
  void on(const WorkerSaid& said);
  void on(const WorkerGone& gone);
  void on_hello(WorkerPeer peer, const std::string& name, const std::string& from);
  absl::Status on_message(Worker& worker, const wire::WorkerMessage& message);
  absl::Status on_attached(Worker& worker, const wire::WorkerAttached& attached);
  absl::Status on_joined(Worker& worker);
  absl::Status on_role_taken(Worker& worker, const wire::RoleTaken& taken);
  absl::Status on_ready(const Worker& worker, const wire::WorkerReady& ready);
  // An error: larger batches would not help, and the worker is sent away.
  absl::Status on_too_few(const Worker& worker, const wire::TooFew& said);
  bool counts(const Worker& worker, const wire::WorkerReady& ready);
  void send_early_if_it_waits();
  void discard(const Worker& worker, const std::string& why);
  absl::Status learn_job(const wire::WorkerAttached& attached);
  absl::Status make_controller(std::int64_t dataset_size, DataOrder data_order);
  void send_boards(Worker& worker);
  void give_role(const LiveReplica& replica);
  absl::Status join_those_that_are_whole();
  bool plans_anew() const { return controller_ != nullptr && controller_->plans_anew(); }
  void on(const PlanFound& found);
  void follow_plans();
  void follow(const control::PlanAdopted& adopted);
  void follow(const control::NoPlan& none);
  void send_away(WorkerPeer peer, const std::string& why);
  // `least_batch`: control::ReplicaLeft has it.
  void remove_worker(WorkerPeer peer, const std::string& why,
                     std::optional<std::int64_t> least_batch = std::nullopt);
  void leave(const LiveReplica& replica, const std::string& why,
             std::optional<std::int64_t> least_batch = std::nullopt);

  // Servers and the evaluator.
  void on(const ServerSaid& said);
  void on(const ServerGone& gone);
  void on_hello(ServerPeer peer, const wire::ServerHello& hello);
  absl::Status on_message(ServerId server, const wire::ServerMessage& message);
  void on_ballot(ServerId server, const wire::Ballot& ballot);
  void miss_server(ServerId server, const std::string& why);
  bool is_kept_here(ServerId server, const wire::KeptShard& kept) const;
  void take_up_server(ServerId server, const wire::KeptShard& kept);
  void give_up_missed_servers();
  void fail_checkpoint_of_missed();
  void take_up_vote();
  bool all_awaited_servers_here() const;
  void start_servers_if_ready();
  std::optional<std::string> card_for_shards();
  absl::Status on_started(ServerId server, const wire::ServerStarted& started);
  absl::Status on_no_weights(ServerId server, const std::string& error);
  absl::Status on_mapped(ServerId server, const wire::ServerMapped& mapped);
  absl::Status on_applied(ServerId server, Version version);
  absl::Status note_updates(ServerId server, const wire::ServerMessage& message);
  void on_failed(ServerId server, const wire::ServerFailed& message);
  absl::Status diverged(const wire::ServerFailed& message);
  void lose_gradient(ServerId server, const wire::ServerFailed& message);
  void measure_restart();
  void on(const EvaluatorSaid& said);
  void on(const EvaluatorGone& gone);
  void show_evaluator_boards();
  void on_evaluated(const wire::Evaluated& message);
  void lose_evaluator();

  void note_process(const std::string& name, const wire::Heartbeat& beat);
  absl::Status note_links(const std::string& name, HostPlace host, const wire::Heartbeat& beat);
  std::optional<HostPlace> sender_of(const wire::Received& received) const;

  // Orders.
  // Carries out the orders, and follows plans that are among them.
  absl::Status tell_controller(decltype(control::Fact::what) what);
  void carry_out(const control::Order& order, const TimedController::ReleasedNext& released);
  void carry_out(const control::CommitRecord& record, const TimedController::ReleasedNext& released);
  void carry_out(const control::Release& release);
  void carry_out(const control::Discard& discard) { early_.discarded(discard.replica, discard.clock); }
  void carry_out(const control::Park& park) { early_.parked(park.replica); }
  void carry_out(const control::Finish& order) {
    done_ = order.cause != control::FinishCause::kStopped;
    finish();
  }
  void want(HostPlace host, Version version);
  void carry_out(const control::PlanAdopted& adopted) { plans_.emplace_back(adopted); }
  void carry_out(const control::NoPlan& none) { plans_.emplace_back(none); }
  template <class Other>
  void carry_out(const Other&) {}

  // The phases.
  void enter(Phase next);
  bool training() const { return phase_ == Phase::kTraining; }
  bool saving_copies() const { return phase_ == Phase::kSavingCopies; }
  // No process joins the run any more, and none leaves it.
  bool ending() const { return phase_ != Phase::kStarting && !training() && !saving_copies(); }
  bool disconnecting() const { return phase_ == Phase::kDisconnecting || phase_ == Phase::kOver; }
  void on(const TimePassed&);
  void on(const WokeUp&);
  void on(const StopWanted& wanted);
  void on(const CheckpointWanted& wanted);
  void on(const EvaluationWanted&);
  void on(const RecordingFailed& failed) { fail(failed.why); }
  void stop(const std::string& why, control::FinishCause cause = control::FinishCause::kStopped);
  void fail(absl::Status status);
  void finish();
  void finish_if_done();
  void go_back(const std::string& why);
  void lose_server(std::optional<ServerId> server, const std::string& why);
  void go_on_from_emergency_checkpoint(const absl::Status& step);
  bool workers_take_last();
  void send_disconnect();
  wire::Disconnect disconnect_order() const;

  // The missing processes: who is waited for, and how long.
  void give_up_silent();
  void give_up_hosts();
  void give_up_waiting_for_replicas();
  void begin_without_missing();
  void tell_of_gone_before_start();
  void end_without_hosts(std::chrono::duration<double> waited);
  // The hosts whose servers are not here.
  std::vector<HostRank> missing_hosts() const;
  void begin_with_those_here();
  std::vector<DevicePlace> missing_devices() const;
  const std::string& device_name(DevicePlace device) const;
  bool every_host_has_a_worker() const;
  std::int64_t replicas_here() const;
  void tell_of_nobody(const std::string& name, const std::string& why);
  void end_look();

  // Checkpoints.
  void write_checkpoint(control::ControllerState state);
  void write_wanted_checkpoint();
  void on(const CheckpointOpened& opened);
  void on(const CheckpointCounted& counted);
  void on(const RestartKept&);

  const AttemptOptions options_;
  SteadyTime at_;  // time of the event that is being taken
  Outbox out_;
  Phase phase_ = Phase::kStarting;
  SteadyTime phase_since_{};         // set with every phase but the first
  bool stop_asked_ = false;          // a stop was asked for while it trains
  std::optional<StopWanted> asked_;  // the first request for a stop
  bool done_ = false;                // every sample is committed, or the target is reached
  absl::Status result_;
  MissedServers missed_servers_;
  // The reason to stop, with a checkpoint, when the remaining devices cannot hold the model.
  absl::Status no_plan_;

  std::unique_ptr<TimedController> controller_;  // set once the data are known
  // The newest version that all servers have made, as the Controller knows; only if it hears of completions.
  Version completed_{};
  Contributions contributions_;
  std::optional<JobFacts> job_facts_;
  WorkerTable workers_;
  ReplicaTable replicas_;
  EarlyGradients early_;
  LinkWatch link_watch_{options_.job.hosts};
  std::deque<std::variant<control::PlanAdopted, control::NoPlan>> plans_;  // ordered, and not yet followed
  ServerFleet servers_;
  FirstWeights first_weights_;
  const HostPlace evaluator_host_;
  EvaluatorSession evaluator_;
  Evaluations evaluations_;
  RunCheckpoints checkpoints_;
  std::optional<Replication> replication_;  // set if there are several copies of each shard
  // Set if there are copies, while servers may have newer versions than the restart.
  std::optional<RecoveryVote> vote_;
  // since when the servers that came have every shard of such a version
  std::optional<SteadyTime> vote_found_since_;
  bool awaits_copy_;      // waits for a copy of the restart's checkpoint
  std::string lost_why_;  // the first loss, while the servers write the remaining versions
  std::vector<HostRank> lost_hosts_;
  Patience idle_;                            // while it trains with no replica at all
  MissingDevices missing_;                   // while another attempt waits for workers
  std::set<DevicePlace> gone_before_start_;  // devices that joined first: the planner counts on them
  struct Absent {
    std::vector<std::string> names;
    std::string why;
  };
  std::optional<Absent> absent_;  // the run begins without these, once there is a plan for that
  std::int64_t told_of_ = 0;      // replicas that the Controller was told of before it started
  Hearing hearing_;
  std::optional<SteadyTime> last_since_;  // since when the workers take the last weights
};

}  // namespace paceline::coordinator

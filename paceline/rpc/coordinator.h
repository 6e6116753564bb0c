// The live host of a Controller: streams in, facts to the Controller, its orders out. It decides nothing
// itself, and runs on one event loop's thread. Tables of workers and servers, evaluations and checkpoints are
// classes of their own; what deals with workers is in coordinator_workers.cc, what leads to the end in
// coordinator_end.cc.
//
// Where plans may change, replicas join the run together, once all of the plan are formed, so that no round
// is less than a batch. When those that are left cannot hold the model, the run ends with that, after a
// checkpoint.
//
// A run goes through these phases: workers attach and say what their model and data are → the servers start
// from the first worker's initial weights or from a checkpoint → workers join, and take their roles in
// replicas → facts and orders → the last evaluation and checkpoint → goodbye to all.
//
// Where shards are kept twice and a server is lost, nothing more is taken or ordered; the run goes back once
// what the others have is written (Replication). Likewise before it starts, when servers come that still have
// what a coordinator before, which is gone, had not in a checkpoint (HeldVersions).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/event_loop.h"
#include "paceline/config/job_config.h"
#include "paceline/control/contribution_watch.h"
#include "paceline/control/replanner.h"
#include "paceline/control/run_listener.h"
#include "paceline/rpc/checkpoints.h"
#include "paceline/rpc/evaluations.h"
#include "paceline/rpc/held_versions.h"
#include "paceline/rpc/live_controller.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/rpc/peer_stream.h"
#include "paceline/rpc/replica_table.h"
#include "paceline/rpc/replication.h"
#include "paceline/rpc/server_fleet.h"
#include "paceline/rpc/worker_table.h"

namespace paceline::rpc {

using EvaluatorStream = PeerStream<wire::EvaluatorMessage, wire::EvaluatorOrder>;

// Where a run goes on from.
struct Restart {
  control::ControllerState state;
  Duration elapsed{0};
  std::string checkpoint_dir;
};

// An attempt at the job whose coordinator was killed.
struct CutShort {
  std::string attempt;  // as servers call it
  Version newest;       // of the commits that it recorded
};

struct CoordinatorOptions {
  config::JobConfig job;
  std::string job_toml;
  std::optional<Restart> restart;
  bool again = false;     // the job has been begun before: whoever is lost at the start is waited for as well
  int host = 0;           // of this process and the evaluator, by the job's own count
  std::string attempt{};  // what this one is called
  std::optional<CutShort> cut_short{};  // where it recorded more than the restart has
  // Workers that an attempt before was lost by, and why they are not let in.
  std::map<std::string, std::string> given_up{};
  // Nothing is trained: the run goes back as soon as what servers still have is written, or turns out not to
  // be had. Nobody waits for these hosts.
  std::optional<std::vector<int>> only_look_without{};
  std::vector<control::RunListener*> listeners;  // outlive the coordinator
  // Makes what they were shown last; an error is the end of the run.
  std::function<absl::Status()> keep_books = nullptr;
  CheckpointSink* checkpoints = nullptr;  // likewise
  // In the run folder, for the servers of other hosts to find; empty where there are none.
  std::string mark_file{};
  std::string mark_text{};
  // Told once the size of the data set is known, before the first fact.
  std::function<void(const control::ControllerConfig&)> on_data_known;
  // One line that a person should see.
  std::function<void(const std::string&)> notice;
  // Likewise, and should remember: how the replicas are other ones from now on, what could not be gone on
  // from.
  std::function<void(const std::string&)> news;
  // Nothing is lost that anybody saw of the attempt that was cut short.
  std::function<void()> nothing_lost = nullptr;
};

class Coordinator final : public WorkerStream::Listener,
                          public ServerStream::Listener,
                          public EvaluatorStream::Listener {
 public:
  Coordinator(EventLoop& loop, CoordinatorOptions options);

  void received(const WorkerStream::Pointer& stream, const wire::WorkerMessage& message) override;
  void received(const ServerStream::Pointer& stream, const wire::ServerMessage& message) override;
  void received(const EvaluatorStream::Pointer& stream, const wire::EvaluatorMessage& message) override;
  void closed(const WorkerStream::Pointer& stream) override;
  void closed(const ServerStream::Pointer& stream) override;
  void closed(const EvaluatorStream::Pointer& stream) override;

  // To be called a few times a second: notices who has gone silent, and when all is over.
  void tick();
  // A clean stop: a checkpoint of the newest version, then goodbye to all.
  void ask_stop(const std::string& why);

  // The run cannot go on.
  void fail(absl::Status status);
  // The run has failed, and can go on from its last checkpoint in another coordinator: nobody was sent home.
  bool can_go_on() const { return can_go_on_; }
  // The newest that anybody may have seen: what came after the checkpoint that the run goes on from is lost.
  Version seen() const;
  // Without these, by the job's own count: they were waited for long enough.
  const std::vector<int>& lost_hosts() const { return lost_hosts_; }

  // Because of these workers, and why.
  const std::map<std::string, std::string>& wrong_workers() const { return wrong_workers_; }

  std::string phase() const;
  // Of the processes that the job has places for, those that are not here: "server0", "w2".
  std::vector<std::string> missing() const;
  bool training() const { return controller_ != nullptr && controller_->started(); }
  // Of the job; 0 before the data are known.
  Time now() const { return controller_ == nullptr ? Time{} : controller_->now(); }
  // After the loop has stopped: why the run could not go on, if it could not.
  const absl::Status& result() const { return result_.ok() ? no_plan_ : result_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // Workers.
  void on_hello(const WorkerStream::Pointer& stream, const wire::WorkerHello& hello);
  absl::Status on_message(Worker& worker, const wire::WorkerMessage& message);
  absl::Status on_attached(Worker& worker, const wire::WorkerAttached& attached);
  void look_at_constants(const Worker& worker, const wire::WorkerAttached& attached);
  absl::Status on_joined(Worker& worker);
  absl::Status on_role_taken(Worker& worker, const wire::RoleTaken& taken);
  absl::Status on_ready(const Worker& worker, const wire::WorkerReady& ready);
  const std::string* why_given_up(const std::string& worker) const;
  bool counts(const Worker& worker, const wire::WorkerReady& ready);
  void tell_of_discarded(const std::string& why);
  void discard(const Worker& worker, const std::string& why);
  absl::Status learn_job(const wire::WorkerAttached& attached);
  absl::Status make_controller(std::int64_t dataset_size);
  absl::Status keep_books();
  void send_boards(Worker& worker);
  void give_role(const LiveReplica& replica);
  absl::Status join_those_that_are_whole();
  bool plans_anew() const { return replanner_ != nullptr && replanner_->plans_anew(); }
  void end_batch_if_due();
  void plan_without(const Worker& gone);
  void follow(const absl::StatusOr<control::Replanner::Ended>& ended);
  void change_plan(const control::Replanner::Change& change);
  void send_away(const WorkerStream::Pointer& stream, const std::string& why);
  void remove_worker(const WorkerStream::Pointer& stream, const std::string& why);
  void leave(const LiveReplica& replica, const std::string& why);

  // Servers and the evaluator.
  void on_hello(const ServerStream::Pointer& stream, const wire::ServerHello& hello);
  absl::Status on_message(std::size_t shard, const wire::ServerMessage& message);
  void take_up_what_is_held(std::size_t server, const wire::Held& held);
  void start_servers_if_ready();
  std::vector<std::string> initial_weights() const;
  absl::Status on_started(std::size_t shard, const wire::ServerStarted& started);
  absl::Status on_no_weights(std::size_t shard, const std::string& error);
  void give_first_weights();
  absl::Status on_mapped(std::size_t shard, const wire::ServerMapped& mapped);
  absl::Status on_applied(std::size_t shard, Version version);
  void on_written(std::size_t shard, const wire::ServerWritten& written);
  void on_failed(std::size_t shard, const wire::ServerFailed& message);
  absl::Status diverged(const wire::ServerFailed& message);
  void lose_gradient(std::size_t shard, const wire::ServerFailed& message);
  void measure_restart();
  void welcome_evaluator();
  void evaluate(Version version);
  void on_evaluated(const wire::Evaluated& message);
  void lose_evaluator();

  // Orders.
  void carry_out(const control::CommitRecord& record);
  void carry_out(const control::Release& release);
  void carry_out(const control::Finish&) { finish(); }
  template <class Other>
  void carry_out(const Other&) {}

  // The end.
  void give_up_silent();
  void give_up_hosts();
  void give_up_waiting_for_replicas();
  bool waited(bool waiting, std::optional<SteadyTime>& since) const;
  void begin_without_missing();
  std::vector<std::size_t> missing_devices() const;
  bool every_host_has_a_worker() const;
  std::int64_t replicas_here() const;
  void tell_of_nobody(const std::string& name, const std::string& why);
  void end_look();
  void go_back(const std::string& why);
  void lose_server(std::optional<std::size_t> shard, const std::string& why);
  void go_on_from_rescue(const absl::Status& step);
  bool rescuing() const { return replication_ && replication_->rescuing() && !goodbye_said_; }
  void write_checkpoint(control::ControllerState state);
  void checkpoint_failed(Version version, const absl::Status& why);
  void finish();
  void finish_if_done();
  wire::Goodbye last_word() const;
  void say_goodbye();

  EventLoop& loop_;
  const CoordinatorOptions options_;
  std::unique_ptr<LiveController> controller_;  // once the data are known
  Version completed_{};  // by all servers, as the Controller was told; only where it wants to hear
  std::optional<double> last_loss_;                    // of an iteration, that was a finite number
  control::ContributionWatch contributions_;
  std::int64_t discarded_ = 0;  // contributions
  std::optional<wire::WorkerAttached> job_facts_;  // the first worker's: model, data and initial weights
  WorkerTable workers_;
  ReplicaTable replicas_;
  std::unique_ptr<control::Replanner> replanner_;  // likewise; null where no planner made the plan
  ServerFleet servers_;
  const int evaluator_host_;  // place in the job
  EvaluatorStream::Pointer evaluator_;
  bool evaluator_has_boards_ = false;
  SteadyTime evaluator_heard_at_{};
  SteadyTime evaluator_gone_at_{};
  Evaluations evaluations_;
  Checkpoints checkpoints_;
  std::optional<SteadyTime> checkpoint_again_at_;  // after one that could not be written
  int checkpoints_failed_ = 0;                     // in a row
  std::optional<Replication> replication_;  // where there are several copies of each shard
  std::optional<HeldVersions> held_;        // likewise, while servers may have more than the restart
  std::string lost_why_;                    // the first loss, while what is left is written
  const SteadyTime since_ = std::chrono::steady_clock::now();
  std::vector<int> lost_hosts_;
  std::map<std::string, std::string> wrong_workers_;
  std::set<std::size_t> without_weights_;    // servers that could not read those of a worker
  std::optional<SteadyTime> idle_since_;     // while it trains with no replica at all
  std::optional<SteadyTime> missing_since_;  // while another attempt waits for workers
  std::set<std::size_t> done_without_;       // devices that were waited for long enough
  std::int64_t told_of_ = 0;                 // replicas that the Controller was told of before it started
  SteadyTime last_tick_ = std::chrono::steady_clock::now();
  SteadyTime listening_since_ = last_tick_;
  bool can_go_on_ = false;
  bool stop_asked_ = false;
  bool finishing_ = false;
  SteadyTime finishing_at_;
  bool goodbye_said_ = false;
  SteadyTime goodbye_at_;
  absl::Status result_;
  absl::Status no_plan_;  // what is left cannot hold the model: a reason to stop, with a checkpoint
};

}  // namespace paceline::rpc

// The course of an attempt: its phase (phase.h), every way from one phase to the next, and the objects that only one
// phase has. Pure.
//
// If shards are kept twice and a server is lost, the attempt takes and orders nothing more; the run goes back
// when the versions of the other servers are written (Replication). The same happens before the start, when
// servers come that have newer versions of an earlier attempt than its checkpoints (Start).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/data_order.h"
#include "paceline/decisions/coordinator/events.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/phase.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/processes.h"
#include "paceline/decisions/coordinator/replication.h"
#include "paceline/decisions/coordinator/run_checkpoints.h"
#include "paceline/decisions/coordinator/start.h"
#include "paceline/decisions/coordinator/timed_controller.h"

namespace paceline::coordinator {

// Ends the reason for which a run goes back if a worker is wrong: see Foresight::lost().
inline constexpr char kReadyUnsaid[] = "left a gradient to the servers and ended before it said so";

class Course {
 public:
  // `carry_out`, `waiting`: see TimedController. The references outlive this.
  Course(const AttemptOptions& options, Processes& processes, Outbox& out,
         TimedController::CarryOut carry_out, TimedController::Waiting waiting);

  // Called before each event. `running_since`: from Hearing.
  void begin_event(SteadyTime at, SteadyTime running_since) {
    at_ = at;
    running_since_ = running_since;
  }
  SteadyTime at() const { return at_; }
  SteadyTime running_since() const { return running_since_; }

  // ---- The phase

  Phase phase() const { return phase_; }
  // Null once the start is over.
  Start* start() { return start_ ? &*start_ : nullptr; }
  const Start* start() const { return start_ ? &*start_ : nullptr; }
  bool training() const { return phase_ == Phase::kTraining; }
  bool saving_copies() const { return phase_ == Phase::kSavingCopies; }
  // Whether processes join the run, and leave it.
  bool open() const { return start_ || training(); }
  // Whether it trains, or finishes: the servers have work.
  bool serves() const { return training() || phase_ == Phase::kFinishing; }
  bool disconnecting() const { return phase_ == Phase::kDisconnecting || phase_ == Phase::kOver; }
  // True if the run trains, or has trained.
  bool started() const { return controller_ != nullptr && controller_->started(); }

  // ---- The Controller

  // Makes the Controller, once the data are known. `on_card`: the first worker computes on a card. Errors: the job cannot
  // be.
  absl::Status make_controller(std::int64_t dataset_size, DataOrder data_order, bool on_card);
  // Null until then.
  const TimedController* controller() const { return controller_.get(); }
  absl::Status take(decltype(control::Fact::what) what);
  // The servers do not need a gradient any more once they have carried out what was ordered before.
  void unmap_gradient(ReplicaId replica);
  // See TimedController.
  bool settle() { return controller_ == nullptr || controller_->settle(); }
  // Whether they have not answered, and none has made it.
  bool awaits_answers() const { return controller_ != nullptr && controller_->awaits_answers(); }
  // The newest version that a server can have: version(), or the next one.
  Version newest() const { return controller_ == nullptr ? Version(0) : controller_->newest(); }
  // The server has answered to Revoke.
  void answered(ServerId server, const ServerRevoked& answer);
  // The server is back with this shard, and was told what was ordered.
  void server_is_back(ServerId server, const KeptShard& kept);
  bool plans_anew() const { return controller_ != nullptr && controller_->plans_anew(); }
  // The newest version; 0 before the data are known.
  Version version() const { return controller_ == nullptr ? Version(0) : controller_->version(); }
  // The job's time; 0 before the data are known.
  Time time(SteadyTime at) const { return controller_ == nullptr ? Time{} : controller_->time(at); }
  Time now() const { return time(at_); }

  // ---- The ways on

  // Starts the servers if all they need is here.
  void start_servers_if_ready();
  // A server came, with this ballot.
  void came(ServerId server, const Ballot& ballot);
  // Another host has a copy of the restart's checkpoint, or never will.
  void has_copy();
  // Has the servers write a version that is newer than the restart.
  void save(RecoveryVote::Found newer);
  void stop(const StopWanted& wanted);
  void stop(const std::string& why, control::FinishCause cause = control::FinishCause::kStopped);
  // No plan is possible any more.
  void stop_without_plan(const std::string& why);
  // The run cannot go on, in this attempt or another.
  void fail(absl::Status status);
  // The Controller has finished. `done`: every sample is committed, or the target is reached.
  void finish(bool done);
  // Goes on to the end, as far as nothing is left to wait for.
  void finish_if_done();
  // Commits after the last checkpoint are lost.
  void go_back(const std::string& why);
  // Another host leads the run, and processes go to that host.
  void leave_lead();
  // `server`: nothing if two of them cannot reach each other. If shards are kept twice, the other servers first
  // write their versions.
  void lose_server(std::optional<ServerId> server, const std::string& why);
  void time_passed();

  // ---- Versions, copies and checkpoints

  // The Controller has ordered this version. Returns its state, which the servers keep; null if there are no copies.
  const CommitQuorum::Snapshot* ordered(Version version);
  absl::Status prepared(ServerId server, Version version);
  void copy_written(ServerId server, const CopyWritten& message);
  void write_checkpoint(control::ControllerState state);
  void want_checkpoint(const std::string& why);
  // Writes a checkpoint that was asked for, or is to be tried again, if that can be now.
  void write_waiting_checkpoint();
  void opened(const absl::StatusOr<std::string>& folder);
  void written(ServerId server, const ServerWritten& message);
  void counted(const absl::Status& status);
  // A server that is gone was writing files of a checkpoint, which end with it.
  void lose_files(ServerId server, const std::string& why);

  // ---- What it says of itself

  // The newest version that a process may have seen.
  Version seen() const { return replication_ && controller_ ? replication_->certain() : newest(); }
  // Why the run could not go on, if it could not.
  const absl::Status& result() const { return result_.ok() ? no_plan_ : result_; }
  // The first request for a stop, if the job is not done.
  std::optional<StopWanted> interrupted() const;
  // Tells a process that comes at the end how the run has ended. Returns false before the end.
  template <class Peer>
  bool turns_away(Peer peer) {
    if (disconnecting()) out_.send_disconnect(peer, disconnect_order());
    return disconnecting();
  }
  bool turns_away(WorkerPeer peer) {
    if (disconnecting()) out_.send_disconnect(peer, disconnect_order(peer));
    return disconnecting();
  }
  // The same for the server of that host.
  bool turns_away(ServerPeer peer, HostRank host) {
    if (disconnecting() && std::erase(coming_, host) > 0) last_came_ = at_;
    return turns_away(peer);
  }

 private:
  void enter(Phase next);
  // No process changes the outcome any more.
  bool decided() const { return disconnecting() || phase_ == Phase::kWentBack; }
  void save_or_start();
  void end_without_disconnect(absl::Status why);
  void end_training();
  void measure_restart();
  void go_on_from_emergency_checkpoint(const absl::Status& step);
  // The way on if a gradient that a server has used will never be said to be ready.
  void go_back_if_lost();
  bool workers_take_last();
  bool all_know_the_end() const;
  Disconnect disconnect_order() const;
  Disconnect disconnect_order(WorkerPeer peer);
  void send_disconnect();

  const AttemptOptions& options_;
  Processes& processes_;
  Outbox& out_;
  const TimedController::CarryOut carry_out_;
  const TimedController::Waiting waiting_;
  SteadyTime at_{};  // time of the event that is being taken
  SteadyTime running_since_{};
  Phase phase_ = Phase::kStarting;
  SteadyTime phase_since_{};  // set with every phase but the first
  std::optional<Start> start_;
  std::unique_ptr<TimedController> controller_;  // set once the data are known
  RunCheckpoints checkpoints_;
  std::optional<Replication> replication_;  // set if there are several copies of each shard
  std::string lost_why_;                    // the first loss, while the servers write the remaining versions
  std::optional<SteadyTime> last_since_;    // since when the workers take the last weights
  bool stop_asked_ = false;                 // a stop was asked for before the end
  std::optional<StopWanted> asked_;         // the first request for a stop
  std::vector<HostRank> coming_;            // hosts that have not heard of the end, and may be on their way
  std::optional<SteadyTime> last_came_;     // when the last one of these came
  std::optional<WorkerPeer> first_;         // the worker that was told that it is the first of those left
  bool done_ = false;                       // every sample is committed, or the target is reached
  absl::Status result_;
  // The reason to stop, with a checkpoint, when the remaining devices cannot hold the model.
  absl::Status no_plan_;
};

}  // namespace paceline::coordinator

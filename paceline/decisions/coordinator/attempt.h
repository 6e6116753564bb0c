// One attempt at a job, from its coordinator's view: it takes events and gives actions. Pure: time is a field of each
// event, and there is no other input. The Controller decides about commits and releases; the attempt decides which
// processes belong to the run, and how it goes on when one is lost.
//
// A run goes through these phases: workers attach and say what their model and data are → the servers start
// from the first worker's initial weights or from a checkpoint → workers join, and take their roles in
// replicas → facts and orders → the last evaluation and checkpoint → a disconnect to all.
//
// Its parts: Processes (who is here), Start (the wait before it trains), Course (the phase, and the ways on),
// WorkerMembership and ServerMembership. A part calls only those before it; this class gives them the events, and
// carries out the Controller's orders.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/decisions/coordinator/attempt_options.h"
#include "paceline/decisions/coordinator/course.h"
#include "paceline/decisions/coordinator/events.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/processes.h"
#include "paceline/decisions/coordinator/server_membership.h"
#include "paceline/decisions/coordinator/waiting.h"
#include "paceline/decisions/coordinator/worker_membership.h"

namespace paceline::coordinator {

class Attempt {
 public:
  Attempt(AttemptOptions options, SteadyTime start);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Takes an event and returns the actions in order. There are no more actions after End.
  std::vector<Action> take(Event event);

  Phase phase() const { return course_.phase(); }
  // The run has failed, and can go on from its last checkpoint in another attempt: no process got a
  // disconnect.
  bool can_go_on() const { return phase() == Phase::kWentBack; }
  // True if the run trains, or has trained.
  bool started() const { return course_.started(); }
  // The newest version that a process may have seen: everything after the checkpoint that the run goes on
  // from is lost.
  Version seen() const { return course_.seen(); }
  // Hosts that were waited for long enough: the run goes on without them.
  const std::vector<HostRank>& lost_hosts() const { return lost_hosts_; }
  // The version that an evaluation out of turn would measure now. Errors: FailedPrecondition if there is no
  // such version, or no evaluator.
  absl::StatusOr<Version> next_to_measure() const;
  // Workers that were given up because of their gradients, and why.
  const std::map<std::string, std::string>& wrong_workers() const {
    return workers_.contributions().wrong_workers();
  }
  // The phase, for people.
  std::string phase_in_words() const;
  // The processes for which a run waits after all its training; empty: none, or it still trains.
  std::string waits_for() const;
  // The host to which this one leaves the lead, for those who ask; null: none.
  const LeaderIsBack* gives_way_to() const {
    return course_.start() != nullptr ? course_.start()->gives_way_to() : nullptr;
  }
  // The missing processes of the job: "server0", "w2".
  std::vector<std::string> missing() const;
  // The job's time; 0 before the data are known.
  Time time(SteadyTime at) const { return course_.time(at); }
  // Why the run could not go on, if it could not.
  const absl::Status& result() const { return course_.result(); }
  // The first stop, if the job is not done: for example because the command of a host was interrupted.
  std::optional<StopWanted> interrupted() const { return course_.interrupted(); }

 private:
  // Events.
  void on(const WorkerSaid& said);
  void on(const WorkerGone& gone);
  void on(const ServerSaid& said) { servers_.take(said); }
  void on(const ServerGone& gone) { servers_.leave(gone.peer); }
  void on(const EvaluatorSaid& said);
  void on(const EvaluatorGone& gone);
  void on(const TimePassed&);
  void on(const WokeUp&);
  void on(const StopWanted& wanted) { course_.stop(wanted); }
  void on(const LeaderIsBack& back) {
    if (Start* start = course_.start()) start->give_way(back, course_.at());
  }
  void on(const CheckpointWanted& wanted) { course_.want_checkpoint(wanted.why); }
  void on(const EvaluationWanted&);
  void on(const RecordingFailed& failed) { course_.fail(failed.why); }
  void on(const CheckpointOpened& opened) { course_.opened(opened.folder); }
  void on(const CheckpointCounted& counted) { course_.counted(counted.status); }
  void on(const RestartKept&) { course_.has_copy(); }
  void on(const PlanFound& found) { workers_.take(found); }

  // The evaluator, and waiting.
  void on_evaluated(const Evaluated& message);
  void lose_evaluator();
  void give_up_silent();
  void go_on_starting(Start::Step step);

  // Orders of the Controller.
  void carry_out(const control::Order& order, const TimedController::ReleasedNext& released);
  void carry_out(const control::CommitRecord& record, const TimedController::ReleasedNext& released);
  void carry_out(const control::Release& release);
  void carry_out(const control::Discard& discard) {
    workers_.early().discarded(discard.replica, discard.clock);
  }
  void carry_out(const control::Park& park) { workers_.early().parked(park.replica); }
  void carry_out(const control::Finish& order) {
    course_.finish(order.cause != control::FinishCause::kStopped);
  }
  void carry_out(const control::PlanAdopted& adopted) { workers_.follow_later(adopted); }
  void carry_out(const control::NoPlan& none) { workers_.follow_later(none); }
  template <class Other>
  void carry_out(const Other&) {}

  const AttemptOptions options_;
  Outbox out_;
  Processes processes_;
  Course course_;
  WorkerMembership workers_;
  ServerMembership servers_;
  Hearing hearing_;
  std::vector<HostRank> lost_hosts_;
};

}  // namespace paceline::coordinator

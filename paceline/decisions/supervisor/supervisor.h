// Decides what the launcher of a host does when its processes end, and which host leads the run. It takes
// events and gives actions. Pure: time is a field of each event.
//
// Invariant: while the job trains, a server or a coordinator that dies is started again, and the run goes on
// from its newest checkpoint; it gives up when that brings no progress. A worker that dies is started again
// only with the next attempt at the job: until then the others go on without it. While a run that has trained
// before comes back, every process that is killed is started again, with the same limit. If the first host
// does not come back, the next one has the coordinator and the evaluator from then on.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/supervisor/answers.h"
#include "paceline/decisions/supervisor/end_reasons.h"
#include "paceline/decisions/supervisor/events.h"
#include "paceline/decisions/supervisor/leader_failover.h"
#include "paceline/decisions/supervisor/members.h"
#include "paceline/decisions/supervisor/phase.h"
#include "paceline/decisions/supervisor/restarts.h"

namespace paceline::supervisor {

inline constexpr char kEvaluator[] = "evaluator";

struct SupervisorOptions {
  // The processes of this host, in the order of their start.
  std::vector<std::pair<std::string, MemberKind>> members;
  std::vector<std::vector<std::string>> replicas{};  // like the argument of Members
  bool plans_anew = false;  // any worker will do: the coordinator reassigns a lost one's work
  bool leads = true;        // the coordinator is here from the start
  bool evaluates = false;   // the host with the coordinator also has an evaluator
  bool resumes = false;     // the run has trained before
  bool again = false;       // the run goes on, and nobody stopped it: hosts that stay away are given up
  bool copies = false;      // there are several of each shard: the coordinator says what it goes on from
  bool beside = false;      // the coordinator is on this host, and another command has started it
  // For a coordinator on another host.
  HostRank host{};
  double patience_s = 0;
  // The limit of programs' work after the job; 0: none.
  double after_limit_s = 0;
  std::string run{};     // the run's folder, if it is known
  std::string leader{};  // the address of a coordinator on another host
};

class Supervisor {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  Supervisor(SupervisorOptions options, SteadyTime now);

  std::vector<Action> take(const Event& event);

  Phase phase() const { return phase_; }
  // Set once everything is over on this host: OK, or why the run could not go on.
  const std::optional<absl::Status>& outcome() const { return outcome_; }
  // True if some process died without a line of its own: its log may say more than the outcome.
  bool logs_say_more() const { return logs_say_more_; }
  // True if the run trains, or trained until the job was over.
  bool training() const { return phase_ >= Phase::kTraining; }
  // True if the coordinator is here by now.
  bool leads() const { return leads_; }
  // The address of the host that led before this one took over; nothing if it did not, or has trained the run since.
  std::optional<std::string> may_give_way_to() const {
    return leads_ && led_since_ ? std::optional(leader_) : std::nullopt;
  }
  // True if some member heard that the run has ended, or goes on without this host.
  bool heard_of_end() const { return heard_of_end_ || reasons_.failure.has_value(); }
  bool stopping() const { return stopping_.has_value(); }
  // Set if the run was stopped before its job was done: the reason that some process heard.
  const std::optional<std::string>& interrupted() const { return interrupted_; }
  // True if a stop that was asked for here ended the run here before its job was done. A stop that comes with the end of the
  // job is too late.
  bool stopped_early() const { return stopping_ && (interrupted_ || !job_done_); }
  // The failure of a program here after the job was over, with ExitReason::kDone. It does not affect the run.
  const absl::Status& after() const { return after_; }
  // True if the run has ended well, and programs here still do their own work.
  bool ending() const { return phase_ == Phase::kEnding; }

 private:
  enum class Start { kFirst, kAgain, kLead };
  struct Ending {
    SteadyTime since;
    // a member told it, because the coordinator is on another host: then servers are waited for too
    bool heard = false;
    bool told = false;
  };

  void on(const Begun&);
  void on(const MemberEnded& ended);
  void on(const CoordinatorEnded& ended);
  bool waits_for_leader_again(const ProcessEnd& end);
  void on(const MemberStarted& started);
  void on(const CoordinatorStarted& started);
  void on(const Answered& answer);
  void on(const NotAnswered& no);
  void on(const LedElsewhere& by);
  void on(const LeaderIsBack&);
  void on(const FolderSeen& folder);
  void on(const TimePassed&);
  void on(const StopWanted& wanted);
  void on(const KillWanted&);

  void enter(Phase next);
  void begin_to_train();
  void put(Action action) { actions_.push_back(std::move(action)); }
  void tell(std::string line) { put(Tell{std::move(line)}); }
  void start(Member& member, std::int64_t attempt);
  void kill(Member& member);
  void start_members();
  void start_coordinator(Start why, StartCoordinator action);
  void stop(const std::string& why);
  AskStop ask_to_stop() const;
  void end(absl::Status outcome);
  void end_once_all_left(bool heard = false);
  void ends_after_job(const ProcessEnd& end);
  void look_whether_all_left();
  void end_at_once();
  // True if the end needs no reaction: the process was meant to end, or the run is over.
  bool ended_in_order(const MemberEnded& ended);
  bool starts_after_loss(const MemberEnded& ended);
  bool could_not_start(const Member& member, const ProcessEnd& end);
  void start_after_loss(Member& member, const std::string& lost);
  void look_at_silence();
  void end_if_nobody_hears();
  void look_at_attempt();
  void start_again_who_is_missed();
  void look_whether_any_replica_is_left();
  void look_whether_it_ended_elsewhere();
  bool has_trained_before() const {
    return options_.resumes || !options_.run.empty() || answers_.latest().attempt > 1;
  }

  const SupervisorOptions options_;
  SteadyTime now_;
  const SteadyTime start_;
  std::vector<Action> actions_;

  Phase phase_ = Phase::kStarting;
  Members members_;
  Answers answers_;
  std::int64_t attempt_ = 0;
  Restarts restarts_;
  Restarts evaluator_restarts_;
  Restarts comes_back_;  // restarts of members before training began

  bool leads_;
  std::optional<LeaderFailover> failover_;  // set while the coordinator is on another host
  std::string leader_;                 // the address of that host; of the one before, if this host took over
  std::optional<HostRank> lost_host_;  // the host in whose place this one leads the run
  // Since this host took the lead; nothing once it has trained as the leader, or another leader has answered.
  std::optional<SteadyTime> led_since_;
  Start starting_ = Start::kFirst;  // why the coordinator was started last
  int starts_left_;                 // how often the first coordinator may be started again

  std::optional<std::string> stopping_;  // why
  StopCause stop_cause_ = StopCause::kAsked;
  bool interrupted_here_ = false;  // a person here wants the stop

  std::optional<Ending> ending_;  // set by kEnding
  std::optional<absl::Status> outcome_;
  EndReasons reasons_;
  absl::Status after_;
  bool logs_say_more_ = false;
  bool heard_of_end_ = false;
  bool job_done_ = false;  // some member heard that the run ended, and not by an interruption
  std::optional<std::string> interrupted_;
  std::optional<SteadyTime> ended_elsewhere_since_;
  bool any_whole_before_ = false;  // whether some replica was whole when time passed last
  std::string lost_worker_;        // a worker lost since then, and why
};

}  // namespace paceline::supervisor

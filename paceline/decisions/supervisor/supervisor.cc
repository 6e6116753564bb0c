#include "paceline/decisions/supervisor/supervisor.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/exit_reason.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/supervisor/limits.h"

namespace paceline::supervisor {

namespace {

// The coordinator waits for a server that was killed, so it does not notice that the next one cannot start.
constexpr int kMostFailedStarts = 3;

// The time beyond the limit for programs' work after the job. A worker that is still here then hangs, because
// it kills a program that takes longer.
constexpr std::chrono::seconds kEndingLimit{10};
// A shorter wait at the end is not explained to people.
constexpr std::chrono::seconds kEndingUntold{2};

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, SteadyTime now)
    : options_(std::move(options)),
      now_(now),
      start_(now),
      members_(options_.members, options_.replicas),
      answers_(now),
      leads_(options_.leads),
      leader_(options_.leader),
      starts_left_(Restarts::kMost) {
  if (!leads_) failover_.emplace(options_.host, options_.patience_s, options_.run, now);
}

std::vector<Action> Supervisor::take(const Event& event) {
  now_ = event.at;
  std::visit([this](const auto& what) { on(what); }, event.what);
  return std::exchange(actions_, {});
}

void Supervisor::enter(Phase next) {
  PACELINE_CHECK(may_follow(phase_, next), "a supervisor goes from {} to {}", name_of(phase_), name_of(next));
  phase_ = next;
}

// ---- The start ----

void Supervisor::on(const Begun&) {
  if (leads_)
    return start_coordinator(Start::kFirst, {.again = options_.again, .hosts_start = options_.again});
  start_members();
}

void Supervisor::start_members() {
  enter(Phase::kGathering);
  for (Member& member : members_) start(member, attempt_);
  if (leads_ && options_.evaluates && members_.find(kEvaluator) == nullptr)
    start(members_.add({kEvaluator, MemberKind::kEvaluator}), attempt_);
}

void Supervisor::begin_to_train() {
  if (phase_ == Phase::kGathering) enter(Phase::kTraining);
}

void Supervisor::start(Member& member, std::int64_t attempt) {
  member.here = true;
  member.attempt = attempt;
  member.missed_since.reset();
  member.started = now_;
  put(StartMember{member.name});
}

void Supervisor::kill(Member& member) {
  if (!std::exchange(member.here, false)) return;
  put(KillMember{member.name});
}

void Supervisor::start_coordinator(Start why, StartCoordinator action) {
  starting_ = why;
  put(std::move(action));
}

void Supervisor::on(const MemberStarted& started) {
  if (started.status.ok()) return;
  Member& member = *members_.find(started.name);
  member.here = false;
  // At the beginning there is no work yet that could be lost.
  if (phase_ != Phase::kTraining && member.attempt == 0) return end(started.status);
  tell(message_of(started.status));
}

void Supervisor::on(const CoordinatorStarted& started) {
  if (started.status.ok()) {
    if (starting_ == Start::kFirst) return start_members();
    if (starting_ == Start::kAgain) return;
    leads_ = true;
    if (!led_since_) led_since_ = now_;
    tell((lost_host_ ? fmt::format("host {} did not come back", *lost_host_)
                     : "this host led the run before") +
         "; this one leads the run");
    if (started.evaluates.value_or(options_.evaluates))
      start(members_.add({kEvaluator, MemberKind::kEvaluator}), attempt_);
    return;
  }
  switch (starting_) {
    case Start::kFirst:
      // A run that has trained before is not over if its coordinator is killed while it comes back.
      if (!options_.resumes || !started.killed || starts_left_-- == 0) return end(started.status);
      return start_coordinator(Start::kFirst, {.again = options_.again, .hosts_start = options_.again});
    case Start::kAgain:
      // If it was killed, CoordinatorEnded comes like after any other end.
      if (!started.killed) end(started.status);
      return;
    case Start::kLead:
      put(DropCoordinator{});
      put(FollowLeader{leader_});
      return tell(fmt::format(
          "{}, and this one cannot lead the run: {}",
          lost_host_ ? fmt::format("host {} did not come back", *lost_host_) : "this host led the run before",
          message_of(started.status)));
  }
}

// ---- A process ends ----

void Supervisor::on(const MemberEnded& ended) {
  Member* member = members_.find(ended.name);
  if (member == nullptr || !member->here) return;
  member->here = false;
  job_done_ |= ended.end.exit_reason == ExitReason::kDone;
  if (ended.end.exit_reason == ExitReason::kDone && !ended.end.reason.ok() && after_.ok())
    after_ = with_exit_reason(
        absl::Status(ended.end.reason.code(),
                     fmt::format("{}: {}; logs/{}.log says more, and nothing of the run is lost",
                                 member->name, message_of(ended.end.reason), member->name)),
        ExitReason::kDone);
  if (ending_ || outcome_) return ends_after_job(ended.end);
  logs_say_more_ |= ended.end.exit_reason == ExitReason::kUnsaid;
  // Training may have begun since the coordinator's last answer.
  if (ended.end.killed && ended.has_trained && !has_trained_before()) begin_to_train();
  if (ended_in_order(ended) || starts_after_loss(ended) || could_not_start(*member, ended.end)) return;
  const bool own_error = !ended.end.killed && ended.end.exit_reason != ExitReason::kCoordinatorLost;
  const std::string why = own_error ? message_of(ended.end.reason) : ended.end.in_words;
  const std::string lost = fmt::format("{} was lost ({})", member->name, why);
  if (member->kind == MemberKind::kWorker) {
    lost_worker_ = fmt::format("{}: {}", member->name, why);
    if (options_.plans_anew) return tell(lost);  // the planner may make replicas of those that are left
    // Hosts that have a part of the workers do not know whether others are left.
    if (members_.knows_all_replicas() && !members_.any_replica_whole())
      return tell(lost + "; no replica is left to train on its samples, so the run stops");
    return tell(lost + "; the others train on its samples");
  }
  // An evaluator that ended by itself would do so again.
  if (member->kind == MemberKind::kEvaluator &&
      !(ended.end.killed && evaluator_restarts_.again(ended.newest)))
    return tell(lost + "; training goes on without evaluations");
  const bool soon = now_ - member->started < kMissedLimit;
  member->failed_starts = own_error && soon ? member->failed_starts + 1 : 0;
  if (member->failed_starts == kMostFailedStarts && !stopping_) {
    reasons_.first_error = ended.end.reason;
    return stop("a process could not start");
  }
  // A launcher keeps what a killed server had, and the last checkpoint lacks it until there is a server again.
  const bool writes_last = stopping_ && leads_ && training() && !reasons_.first_error;
  const bool keeps = member->kind == MemberKind::kServer && ended.end.killed;
  if (!stopping_ || (writes_last && keeps)) start_after_loss(*member, lost);
}

void Supervisor::ends_after_job(const ProcessEnd& end) {
  if (end.exit_reason == ExitReason::kInterrupted) interrupted_ = message_of(end.reason);
  if (end.exit_reason == ExitReason::kRunFailed && (!ending_ || ending_->heard))
    reasons_.failure = end.reason;
}

bool Supervisor::ended_in_order(const MemberEnded& ended) {
  switch (ended.end.exit_reason) {
    case ExitReason::kInterrupted:
      interrupted_ = message_of(ended.end.reason);
      [[fallthrough]];
    case ExitReason::kDone:
      heard_of_end_ = true;
      if (!leads_) end_once_all_left(true);
      return true;
    // The process in its place may be one that a user started, or an earlier one whose end was not noticed
    // yet. If that one goes, the coordinator reports the place as missing.
    case ExitReason::kPlaceTaken:
      members_.find(ended.name)->taken = true;
      reasons_.taken = ended.end.reason;
      return true;
    case ExitReason::kRunFailed:
      reasons_.failure = ended.end.reason;
      return true;
    // The wait for a leader has ended. This host ends once all its members have ended. If a leader comes before that, it
    // misses the members that have ended.
    case ExitReason::kCoordinatorLost:
      if (leads_) return false;
      reasons_.no_leader = ended.end.reason;
      return true;
    case ExitReason::kHostGivenUp:
      // The run goes on without this host, and is not stopped.
      heard_of_end_ = true;
      end(ended.end.reason);
      for (Member& other : members_) kill(other);
      return true;
    default:
      return false;
  }
}

bool Supervisor::starts_after_loss(const MemberEnded& ended) {
  if (training() || !ended.end.killed) return false;
  Member& member = *members_.find(ended.name);
  const std::string lost = fmt::format("{} was lost ({})", member.name, ended.end.in_words);
  // A coordinator that is gone by now ended because of this loss, or for a reason of its own, or was lost as
  // well. If it is started again, so is this process.
  if (leads_ && answers_.nobody()) {
    tell(lost);
    if (!reasons_.lost_with_coordinator) reasons_.lost_with_coordinator = ended.end.reason;
    return true;
  }
  if (stopping_ || !has_trained_before() || !comes_back_.again(ended.newest)) return false;
  start_after_loss(member, lost);
  return true;
}

bool Supervisor::could_not_start(const Member& member, const ProcessEnd& end) {
  const bool coordinator_lost = end.exit_reason == ExitReason::kCoordinatorLost;
  const bool own_error = !end.killed && !coordinator_lost;
  if (training() && (leads_ || !own_error || member.kind == MemberKind::kWorker)) return false;
  // If the run is to stop anyway, a killed process is no reason for its end.
  if (!reasons_.first_error && !coordinator_lost && !(stopping_ && end.killed)) {
    reasons_.first_error = end.reason;
    stop("a process could not start");
    if (!leads_ && !answers_.ever() && now_ < start_ + kStartsTogether)
      tell(fmt::format("{}; waiting at most {} s for the first host, to tell it", message_of(end.reason),
                       kStartsTogether.count()));
  }
  return true;
}

void Supervisor::start_after_loss(Member& member, const std::string& lost) {
  tell(lost + "; it is started again");
  start(member, attempt_ + 1);
}

void Supervisor::on(const CoordinatorEnded& ended) {
  if (outcome_ || ending_) return;
  const ProcessEnd& end = ended.end;
  if (end.exit_reason == ExitReason::kInterrupted) interrupted_ = message_of(end.reason);
  // Training may have begun since the coordinator's last answer.
  if (end.killed && ended.has_trained) begin_to_train();
  if (waits_for_leader_again(end)) return;
  // A run that has trained before is not over if its coordinator is killed while it comes back.
  const bool trained = training() || has_trained_before();
  if (!trained || stopping_ || reasons_.first_error || reasons_.failure || !end.killed) {
    absl::Status outcome = reasons_.after_coordinator(end);
    return end.success && outcome.ok() ? end_once_all_left() : this->end(std::move(outcome));
  }
  if (!restarts_.again(ended.newest)) {
    return this->end(absl::UnavailableError(
        fmt::format("the coordinator was lost ({}), for the {}th time without a new checkpoint", end.in_words,
                    Restarts::kMost + 1)));
  }
  const std::string from =
      ended.newest ? fmt::format("the checkpoint of version {}", *ended.newest) : "the start";
  tell(fmt::format("the coordinator was lost ({}); {}", end.in_words,
                   options_.copies ? "it is started again" : "going on from " + from));
  attempt_ =
      std::max<std::int64_t>(attempt_, 1);  // the next one is another, though nobody asked for the first
  start_coordinator(Start::kAgain, {.again = true});
}

// A host that took over and reaches too few others, or sees the leader before it, waits for that one for as long as the
// others do: the servers here may have the only copy of a part of the newest version.
bool Supervisor::waits_for_leader_again(const ProcessEnd& end) {
  const bool leaves = end.exit_reason == ExitReason::kLeavesLead;
  if (!leaves || !leads_ || !led_since_ || stopping_ || reasons_.failure) return false;
  const double longest = longest_s(options_.host, options_.patience_s);
  if (now_ >= *led_since_ + std::chrono::duration<double>(longest)) return false;
  leads_ = false;
  tell(fmt::format("{}; waiting for the host that led before, at {}, and at most {:.0f} s in all",
                   message_of(end.reason), leader_, longest));
  if (Member* const evaluator = members_.find(kEvaluator)) {
    kill(*evaluator);
    members_.remove_last();
  }
  put(DropCoordinator{});
  put(FollowLeader{leader_});
  answers_.ask_another(now_);
  failover_->not_answered(now_);
  return true;
}

// ---- Answers of the coordinator and the run folder ----

void Supervisor::on(const Answered& answer) {
  answers_.hear(answer, now_);
  reasons_.no_leader.reset();
  if (answer.trains) begin_to_train();
  // The leader before does not have what was trained here.
  if (!leads_ || answer.trains) led_since_.reset();
  if (failover_) failover_->heard(answer.run, now_);
}

void Supervisor::on(const NotAnswered& no) {
  if (answers_.hear(no, now_) && failover_) failover_->not_answered(now_);
}

// This host came back while the one that leads by now was not found. Its job has no place for this host any more, because
// the server of this host is here. The mark stays, so that the next start hears the same.
void Supervisor::on(const LedElsewhere& by) {
  if (!leads_ || outcome_ || ending_ || answers_.latest().trains) return;
  put(KillCoordinator{});
  for (Member& member : members_) kill(member);
  end(with_exit_reason(
      absl::UnavailableError(fmt::format(
          "host {} leads the run by now, from {}: host {} was given up, and the run goes on without it",
          by.leader.host, by.leader.address, options_.host)),
      ExitReason::kHostGivenUp));
}

// The leader that was missed has come back at the same moment. It has the newest journal, and hosts may have gone to it.
void Supervisor::on(const LeaderIsBack&) {
  // A coordinator that was started again may go on from what this host has done for the run.
  if (!may_give_way_to() || starting_ != Start::kLead || stopping_ || outcome_ || ending_) return;
  led_since_ = now_;  // the wait for that host begins
  put(GiveWay{{failover_->led_by(), leader_}});
}

void Supervisor::on(const FolderSeen& folder) {
  // After a failure that a process here has heard of, this host waits for the others to hear it.
  if (leads_ || outcome_ || ending_ || reasons_.failure) return;
  const LeaderFailover::Step step = failover_->look(folder.seen, now_);
  if (const auto* other = std::get_if<LeaderFailover::Follow>(&step)) {
    tell(fmt::format("host {} leads the run, from {}", other->leader.host, other->leader.address));
    leader_ = other->leader.address;
    answers_.ask_another(now_);
    put(FollowLeader{leader_});
  } else if (const auto* mine = std::get_if<LeaderFailover::Lead>(&step)) {
    lost_host_ = mine->lost;
    // A coordinator that reads a large checkpoint takes longer than the processes here wait for the one that is gone.
    put(FollowLeader{});
    start_coordinator(Start::kLead, {.again = true, .without = mine->lost, .run = failover_->run()});
  } else if (std::holds_alternative<LeaderFailover::Over>(step)) {
    tell("the run has ended meanwhile");
    end_once_all_left();
  }
}

// ---- The end ----

void Supervisor::stop(const std::string& why) {
  stopping_ = why;
  put(ask_to_stop());
}

AskStop Supervisor::ask_to_stop() const {
  // If other hosts have workers, they are told why the run ends.
  const bool only_here = leads_ && members_.knows_all_replicas();
  if (!reasons_.first_error || only_here) return {*stopping_, "", stop_cause_};
  return {*stopping_, fmt::format("host {}: {}", options_.host.value(), message_of(*reasons_.first_error))};
}

void Supervisor::on(const StopWanted& wanted) {
  if (ending_) return end_at_once();
  stop_cause_ = wanted.cause;
  interrupted_here_ = true;
  stop(wanted.why);
  end_if_nobody_hears();
}

void Supervisor::on(const KillWanted&) {
  if (ending_) return end_at_once();
  if (!stopping_) stopping_ = "stopped at once";
  if (leads_) return put(KillCoordinator{});
  for (Member& member : members_) kill(member);
}

void Supervisor::end(absl::Status outcome) {
  if (outcome_) return;
  outcome_ = std::move(outcome);
  enter(Phase::kOver);
}

// A program may save files after the job, and these should be whole.
void Supervisor::end_once_all_left(bool heard) {
  enter(Phase::kEnding);
  ending_ = {.since = now_, .heard = heard};
  put(EndWaiting{});  // a stop may come before all have found the coordinator
  look_whether_all_left();
}

void Supervisor::look_whether_all_left() {
  std::string programs;
  bool any = false;
  for (const Member& member : members_) {
    if (!member.here) continue;
    const bool server = member.kind == MemberKind::kServer;
    if (!server) programs += (programs.empty() ? "" : ", ") + member.name;
    any = any || !server || ending_->heard;
  }
  const std::chrono::duration<double> limit(options_.after_limit_s);
  const bool late = limit.count() > 0 && now_ >= ending_->since + limit + kEndingLimit;
  if (!any || late) return end(ending_->heard ? reasons_.as_heard(members_.all_taken()) : absl::OkStatus());
  if (programs.empty() || now_ < ending_->since + kEndingUntold || std::exchange(ending_->told, true)) return;
  tell(fmt::format("the job is over; waiting for what the program does after it in {} (Ctrl-C ends it)",
                   programs));
}

void Supervisor::end_at_once() {
  for (Member& member : members_) kill(member);
  end(absl::OkStatus());
}

}  // namespace paceline::supervisor

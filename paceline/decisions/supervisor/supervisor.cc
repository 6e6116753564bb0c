#include "paceline/decisions/supervisor/supervisor.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/start_patience.h"
#include "paceline/base/status_message.h"

namespace paceline::supervisor {

namespace {

// A process for which the coordinator waits this long hangs, or does not find its way.
constexpr std::chrono::seconds kMissedLimit{10};

// The coordinator waits for a server that was killed, so it does not notice that the next one cannot start.
constexpr int kMostFailedStarts = 3;

// The time beyond the limit for programs' work after the job. A worker that is still here then hangs, because
// it kills a program that takes longer.
constexpr std::chrono::seconds kEndingLimit{10};
// A shorter wait at the end is not explained to people.
constexpr std::chrono::seconds kEndingUntold{2};
// The same while the coordinator's host does not answer. It reads its data, or asks its program, before it
// listens; and a coordinator that was lost is back sooner.
constexpr std::chrono::seconds kSilenceUntold{5};
// The other hosts are usually started within this time. So long this host can tell them why it cannot start.
constexpr std::chrono::seconds kStartsTogether{30};
// While stopping, a coordinator that is silent for this long counts as gone.
constexpr std::chrono::seconds kGone{2};

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, SteadyTime now)
    : options_(std::move(options)),
      now_(now),
      start_(now),
      leads_(options_.leads),
      leader_(options_.leader),
      starts_left_(Restarts::kMost),
      silent_since_(now) {
  for (const auto& [name, kind] : options_.members) members_.push_back({name, kind});
  if (!leads_) failover_.emplace(options_.host, options_.patience_s, options_.run, now);
}

std::vector<Action> Supervisor::take(const Event& event) {
  now_ = event.at;
  std::visit([this](const auto& what) { on(what); }, event.what);
  return std::exchange(actions_, {});
}

// ---- The start ----

void Supervisor::on(const Begun&) {
  if (leads_) return start_coordinator(Start::kFirst, {.again = options_.again});
  start_members();
}

void Supervisor::start_members() {
  for (Member& member : members_) start(member, attempt_);
  if (leads_ && options_.evaluates && find(kEvaluator) == nullptr)
    start(members_.emplace_back(Member{kEvaluator, MemberKind::kEvaluator}), attempt_);
  begun_ = true;
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
  Member& member = *find(started.name);
  member.here = false;
  // At the beginning there is no work yet that could be lost.
  if (!training_ && member.attempt == 0) return end(started.status);
  tell(message_of(started.status));
}

void Supervisor::on(const CoordinatorStarted& started) {
  if (started.status.ok()) {
    if (starting_ == Start::kFirst) return start_members();
    if (starting_ == Start::kAgain) return;
    leads_ = true;
    tell((lost_host_ ? fmt::format("host {} did not come back", *lost_host_)
                     : "this host led the run before") +
         "; this one leads the run");
    put(FollowLeader{});
    if (started.evaluates.value_or(options_.evaluates))
      start(members_.emplace_back(Member{kEvaluator, MemberKind::kEvaluator}), attempt_);
    return;
  }
  switch (starting_) {
    case Start::kFirst:
      // A run that has trained before is not over if its coordinator is killed while it comes back.
      if (!options_.resumes || !started.killed || starts_left_-- == 0) return end(started.status);
      return start_coordinator(Start::kFirst, {.again = options_.again});
    case Start::kAgain:
      // If it was killed, CoordinatorEnded comes like after any other end.
      if (!started.killed) end(started.status);
      return;
    case Start::kLead:
      put(DropCoordinator{});
      return tell(fmt::format(
          "{}, and this one cannot lead the run: {}",
          lost_host_ ? fmt::format("host {} did not come back", *lost_host_) : "this host led the run before",
          message_of(started.status)));
  }
}

// ---- A process ends ----

void Supervisor::on(const MemberEnded& ended) {
  Member* member = find(ended.name);
  if (member == nullptr || !member->here) return;
  member->here = false;
  if (ended.end.exit_reason == ExitReason::kDone && !ended.end.reason.ok() && after_.ok())
    after_ = absl::Status(ended.end.reason.code(),
                          fmt::format("{}: {}; logs/{}.log says more, and nothing of the run is lost",
                                      member->name, message_of(ended.end.reason), member->name));
  if (ending_) {
    if (ending_->heard && ended.end.exit_reason == ExitReason::kRunFailed) failure_ = ended.end.reason;
    if (ended.end.exit_reason == ExitReason::kInterrupted) interrupted_ = message_of(ended.end.reason);
    return;
  }
  logs_say_more_ |= ended.end.exit_reason == ExitReason::kUnsaid;
  // Training may have begun since the coordinator's last answer.
  training_ = training_ || (ended.end.killed && ended.has_trained && !has_trained_before());
  if (ended_in_order(ended) || starts_after_loss(ended) || could_not_start(*member, ended.end)) return;
  const bool own_error = !ended.end.killed && ended.end.exit_reason != ExitReason::kCoordinatorLost;
  const std::string why = own_error ? message_of(ended.end.reason) : ended.end.in_words;
  const std::string lost = fmt::format("{} was lost ({})", member->name, why);
  if (member->kind == MemberKind::kWorker) {
    lost_worker_ = fmt::format("{}: {}", member->name, why);
    if (options_.plans_anew) return tell(lost);  // the planner may make replicas of those that are left
    // Hosts that have a part of the workers do not know whether others are left.
    if (!options_.replicas.empty() && !any_replica_whole())
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
    first_error_ = ended.end.reason;
    return stop("a process could not start");
  }
  if (!stopping_) start_after_loss(*member, lost);
}

bool Supervisor::ended_in_order(const MemberEnded& ended) {
  switch (ended.end.exit_reason) {
    case ExitReason::kInterrupted:
      interrupted_ = message_of(ended.end.reason);
      [[fallthrough]];
    case ExitReason::kDone:
      over_ = true;
      if (!leads_) end_once_all_left(true);
      return true;
    // The process in its place may be one that a user started, or an earlier one whose end was not noticed
    // yet. If that one goes, the coordinator reports the place as missing.
    case ExitReason::kPlaceTaken:
      find(ended.name)->taken = true;
      taken_ = ended.end.reason;
      return true;
    case ExitReason::kRunFailed:
      failure_ = ended.end.reason;
      return true;
    case ExitReason::kHostGivenUp:
      // The run goes on without this host, and is not stopped.
      given_up_ = true;
      end(ended.end.reason);
      for (Member& other : members_) kill(other);
      return true;
    default:
      return false;
  }
}

bool Supervisor::starts_after_loss(const MemberEnded& ended) {
  if (training_ || !ended.end.killed) return false;
  Member& member = *find(ended.name);
  const std::string lost = fmt::format("{} was lost ({})", member.name, ended.end.in_words);
  // A coordinator that is gone by now ended because of this loss, or for a reason of its own, or was lost as
  // well. If it is started again, so is this process.
  if (leads_ && nobody_answers_) {
    tell(lost);
    if (!lost_with_coordinator_) lost_with_coordinator_ = ended.end.reason;
    return true;
  }
  if (stopping_ || !has_trained_before() || !comes_back_.again(ended.newest)) return false;
  start_after_loss(member, lost);
  return true;
}

bool Supervisor::could_not_start(const Member& member, const ProcessEnd& end) {
  const bool coordinator_lost = end.exit_reason == ExitReason::kCoordinatorLost;
  const bool own_error = !end.killed && !coordinator_lost;
  if (training_ && (leads_ || !own_error || member.kind == MemberKind::kWorker)) return false;
  // If the run is to stop anyway, a killed process is no reason for its end.
  if (!first_error_ && !coordinator_lost && !(stopping_ && end.killed)) {
    first_error_ = end.reason;
    stop("a process could not start");
    if (!leads_ && !ever_answered_ && now_ < start_ + kStartsTogether)
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
  training_ = training_ || (end.killed && ended.has_trained);
  // A run that has trained before is not over if its coordinator is killed while it comes back.
  const bool trained = training_ || has_trained_before();
  if (!trained || stopping_ || first_error_ || !end.killed) {
    absl::Status outcome = end_of_coordinator(end);
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

absl::Status Supervisor::end_of_coordinator(const ProcessEnd& end) const {
  // A killed process is no error in the job.
  const auto reason = first_error_ ? exit_reason_of(*first_error_) : ExitReason::kDone;
  const bool said = reason != ExitReason::kUnsaid && reason != ExitReason::kKilled;
  if (first_error_) return said ? absl::InvalidArgumentError(first_error_->message()) : *first_error_;
  if (end.success && !lost_all_.empty())
    return absl::UnavailableError(fmt::format("every replica lost a worker; the last one {}", lost_all_));
  if (end.exit_reason == ExitReason::kMemberLost && lost_with_coordinator_) return *lost_with_coordinator_;
  return end.success ? absl::OkStatus() : end.reason;
}

// The run's end according to the members, if the coordinator is on another host.
absl::Status Supervisor::end_as_heard() const {
  if (first_error_) return *first_error_;
  if (failure_) return *failure_;
  const auto taken = [](const Member& one) { return one.taken; };
  if (taken_ && std::all_of(members_.begin(), members_.end(), taken)) {
    return absl::FailedPreconditionError(
        fmt::format("{}; was another host started with the same --rank?", message_of(*taken_)));
  }
  return absl::OkStatus();
}

// ---- Answers of the coordinator and the run folder ----

void Supervisor::on(const Answered& answer) {
  answered_ = true;
  ever_answered_ = true;
  nobody_answers_ = false;
  silence_told_ = false;
  training_ = training_ || answer.trains;
  latest_ = answer;
  if (failover_) failover_->heard(answer.run, now_);
}

void Supervisor::on(const NotAnswered& no) {
  if (std::exchange(answered_, false)) {
    silent_since_ = now_;
    if (failover_) failover_->not_answered(now_);
  }
  nobody_answers_ = no.nobody;
}

void Supervisor::on(const FolderSeen& folder) {
  if (leads_ || outcome_ || ending_) return;
  const LeaderFailover::Step step = failover_->look(folder.seen, now_);
  if (const auto* other = std::get_if<LeaderFailover::Follow>(&step)) {
    tell(fmt::format("host {} leads the run, from {}", other->leader.host, other->leader.address));
    leader_ = other->leader.address;
    silent_since_ = now_;
    put(FollowLeader{leader_});
  } else if (const auto* mine = std::get_if<LeaderFailover::Lead>(&step)) {
    lost_host_ = mine->lost;
    start_coordinator(Start::kLead, {.again = true, .without = mine->lost, .run = failover_->run()});
  } else if (std::holds_alternative<LeaderFailover::Over>(step)) {
    tell("the run has ended meanwhile");
    end_once_all_left();
  }
}

// ---- Time passes ----

void Supervisor::on(const TimePassed&) {
  if (!begun_) return;
  if (ending_) return look_whether_all_left();
  look_at_silence();
  // a coordinator between two attempts does not hear the request
  if (stopping_ && !outcome_) put(ask_to_stop());
  // This process may have stood still; then it has to ask again first.
  if (!leads_ && !outcome_ && !stopping_ && !answered_ && failover_->wants_to_look(now_))
    put(LookAtFolder{failover_->run()});
  if (!leads_ && !outcome_ && all_ended()) end(end_as_heard());
  if (!outcome_ && !stopping_) {
    look_at_attempt();
    start_again_who_is_missed();
  }
  look_whether_any_replica_is_left();
  look_whether_it_ended_elsewhere();
}

// Acts when a coordinator on another host has not answered for too long.
void Supervisor::look_at_silence() {
  if (leads_ || outcome_ || answered_) return;
  if (stopping_) return end_if_nobody_hears();
  const bool begins = !training_ && !has_trained_before();
  const std::chrono::duration<double> patience =
      ever_answered_ ? std::chrono::duration<double>(longest_s(options_.host, options_.patience_s))
                     : std::chrono::duration<double>(kStartPatience);
  if (begins && ever_answered_ && now_ >= silent_since_ + patience) {
    for (Member& member : members_) kill(member);
    return end(absl::UnavailableError(
        fmt::format("the first host did not answer at {} any more before the run began; waited for {:.0f} s. "
                    "Look there for the reason, and start the hosts again",
                    leader_, patience.count())));
  }
  // The command that leads says how the run ended; a program here may still go on after it.
  if (options_.beside || now_ < silent_since_ + kSilenceUntold || std::exchange(silence_told_, true)) return;
  const char* const host = begins ? "the first host" : "the host that leads the run";
  const std::string waiting = fmt::format("waiting at most {:.0f} s", patience.count());
  if (ever_answered_) {
    return tell(fmt::format(
        "{} does not answer at {} any more; {}. Is `paceline node` still running there?{}", host, leader_,
        waiting, begins ? " If it has ended, it says why there; start it again, or end this host too" : ""));
  }
  tell(
      fmt::format("{} does not answer at {} yet; {}. It may still read its data. Is that its address, is "
                  "`paceline node` running there, and does a firewall let this host reach it?",
                  host, leader_, waiting));
}

// Ends this host if nobody hears the stop, before training has begun: then nothing is lost.
void Supervisor::end_if_nobody_hears() {
  if (leads_ || training_ || answered_ || outcome_) return;
  SteadyTime last = now_;
  if (ever_answered_) {
    last = silent_since_ + kGone;
  } else if (first_error_ && !interrupted_here_) {
    last = start_ + kStartsTogether;
  }
  if (now_ < last) return;
  for (Member& member : members_) kill(member);
  end(first_error_.value_or(absl::OkStatus()));
}

// Another attempt at the job wants all places filled.
void Supervisor::look_at_attempt() {
  const std::int64_t before = std::exchange(attempt_, std::max(attempt_, latest_.attempt));
  if (before == 0 || attempt_ <= before) return;
  for (Member& member : members_) {
    if (member.here) continue;
    tell(fmt::format("{} is started again", member.name));
    start(member, attempt_);
  }
}

void Supervisor::start_again_who_is_missed() {
  const bool waiting = training_ && !latest_.trains;  // the coordinator waits for the missing processes
  for (Member& member : members_) {
    const auto& missing = latest_.missing;
    // A member that was started for this attempt gets time to come, unless it has ended: it may have come
    // before the coordinator noticed the end of its predecessor, and was sent away. An attempt that trains waits
    // for servers alone.
    const bool awaited = waiting && (member.attempt < attempt_ || !member.here);
    const bool hangs = latest_.trains && member.kind == MemberKind::kServer;
    const bool missed =
        (awaited || hangs) && std::find(missing.begin(), missing.end(), member.name) != missing.end();
    if (!missed) member.missed_since.reset();
    if (missed && !member.missed_since) member.missed_since = now_;
    if (!missed || now_ < *member.missed_since + kMissedLimit) continue;
    kill(member);
    tell(fmt::format("{} did not come and is started again", member.name));
    start(member, attempt_);
  }
}

// At a job's end the workers leave in order, and one that is killed then is no loss.
void Supervisor::look_whether_any_replica_is_left() {
  const bool any = any_replica_whole();
  if (!outcome_ && any_whole_before_ && !any && training_ && !over_) {
    if (lost_all_.empty()) lost_all_ = lost_worker_;
    stop("no replica is left");
  }
  any_whole_before_ = any;
  lost_worker_.clear();
}

// If the host that led before came back at the same moment, the processes here may have gone to that one.
// Then they heard how the run ended, and the coordinator here still waits for them.
void Supervisor::look_whether_it_ended_elsewhere() {
  const bool any_here = std::any_of(members_.begin(), members_.end(), [](const Member& one) {
    return one.here && one.kind != MemberKind::kEvaluator;
  });
  const bool took_over = leads_ && !options_.leads;
  if (!took_over || outcome_ || any_here || latest_.trains || !(over_ || failure_))
    return ended_elsewhere_since_.reset();
  if (!ended_elsewhere_since_) ended_elsewhere_since_ = now_;
  if (now_ < *ended_elsewhere_since_ + kMissedLimit) return;
  tell("another host has led the run to its end");
  put(KillCoordinator{});
  for (Member& member : members_) kill(member);
  end(failure_.value_or(absl::OkStatus()));
}

// ---- The end ----

void Supervisor::stop(const std::string& why) {
  stopping_ = why;
  put(ask_to_stop());
}

AskStop Supervisor::ask_to_stop() const {
  // If other hosts have workers, they are told why the run ends.
  const bool only_here = leads_ && !options_.replicas.empty();
  if (!first_error_ || only_here) return {*stopping_, "", stop_cause_};
  return {*stopping_, fmt::format("host {}: {}", options_.host.value(), message_of(*first_error_))};
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
  if (!outcome_) outcome_ = std::move(outcome);
}

// A program may save files after the job, and these should be whole.
void Supervisor::end_once_all_left(bool heard) {
  ending_ = {.since = now_, .heard = heard};
  put(EndWaiting{});  // a stop may come before all have found the coordinator
  look_whether_all_left();
}

void Supervisor::look_whether_all_left() {
  if (outcome_) return;
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
  if (!any || late) return end(ending_->heard ? end_as_heard() : absl::OkStatus());
  if (programs.empty() || now_ < ending_->since + kEndingUntold || std::exchange(ending_->told, true)) return;
  tell(fmt::format("the job is over; waiting for what the program does after it in {} (Ctrl-C ends it)",
                   programs));
}

void Supervisor::end_at_once() {
  for (Member& member : members_) kill(member);
  end(absl::OkStatus());
}

// ---- Members ----

Supervisor::Member* Supervisor::find(const std::string& name) {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [&](const Member& one) { return one.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

bool Supervisor::here(const std::string& name) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& one) { return one.here && one.name == name; });
}

bool Supervisor::any_replica_whole() const {
  return std::any_of(
      options_.replicas.begin(), options_.replicas.end(), [&](const std::vector<std::string>& names) {
        return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return here(name); });
      });
}

bool Supervisor::all_ended() const {
  return std::none_of(members_.begin(), members_.end(), [](const Member& one) { return one.here; });
}

}  // namespace paceline::supervisor

// Decisions that the time brings: what is late, silent or gone.
#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/start_patience.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/supervisor/limits.h"
#include "paceline/decisions/supervisor/supervisor.h"

namespace paceline::supervisor {

namespace {

// A shorter silence is not explained to people. The coordinator's host reads its data, or asks its program, before it
// listens; and a coordinator that was lost is back sooner.
constexpr std::chrono::seconds kSilenceUntold{5};
// While stopping, a coordinator that is silent for this long counts as gone.
constexpr std::chrono::seconds kGone{2};

}  // namespace

void Supervisor::on(const TimePassed&) {
  if (phase_ == Phase::kStarting || phase_ == Phase::kOver) return;
  if (phase_ == Phase::kEnding) return look_whether_all_left();
  look_at_silence();
  // a coordinator between two attempts does not hear the request
  if (stopping_ && !outcome_) put(ask_to_stop());
  // This process may have stood still; then it has to ask again first.
  if (!leads_ && !outcome_ && !stopping_ && !answers_.here() && failover_->wants_to_look(now_))
    put(LookAtFolder{failover_->run()});
  if (!leads_ && !outcome_ && members_.all_ended()) end(reasons_.as_heard(members_.all_taken()));
  // After the run has failed, nobody waits for the missing processes. But a leader that goes on with others of this
  // host did not say so: a process that was cut off heard it from the leader before.
  if (!outcome_ && !stopping_) {
    if (!reasons_.failure) look_at_attempt();
    if (!reasons_.failure || members_.any_but_evaluator()) start_again_who_is_missed();
  }
  look_whether_any_replica_is_left();
  look_whether_it_ended_elsewhere();
}

// Acts when a coordinator on another host has not answered for too long.
void Supervisor::look_at_silence() {
  if (leads_ || answers_.here()) return;
  if (stopping_) return end_if_nobody_hears();
  const bool begins = !training() && !has_trained_before();
  const std::chrono::duration<double> patience =
      answers_.ever() ? std::chrono::duration<double>(longest_s(options_.host, options_.patience_s))
                      : std::chrono::duration<double>(kStartPatience);
  if (begins && answers_.ever() && now_ >= answers_.silent_since() + patience) {
    for (Member& member : members_) kill(member);
    return end(absl::UnavailableError(
        fmt::format("the first host did not answer at {} any more before the run began; waited for {:.0f} s. "
                    "Look there for the reason, and start the hosts again",
                    leader_, patience.count())));
  }
  // The command that leads says how the run ended; a program here may still go on after it.
  if (options_.beside || now_ < answers_.silent_since() + kSilenceUntold || !answers_.tell_silence()) return;
  const char* const host = begins ? "the first host" : "the host that leads the run";
  const std::string waiting = fmt::format("waiting at most {:.0f} s", patience.count());
  if (answers_.ever()) {
    return tell(fmt::format(
        "{} does not answer at {} any more; {}. Is `paceline node` still running there?{}", host, leader_,
        waiting, begins ? " If it has ended, it says why there; start it again, or end this host too" : ""));
  }
  tell(
      fmt::format("{} does not answer at {} yet; {}. It may still read its data. Is that its address, is "
                  "`paceline node` running there, and does a firewall let this host reach it?",
                  host, leader_, waiting));
}

// Ends this host if nobody hears the stop, before training has begun, or while this host waits because it reached too few
// others: then nothing is lost.
void Supervisor::end_if_nobody_hears() {
  const bool waits_again = led_since_.has_value();
  if (leads_ || (phase_ != Phase::kGathering && !waits_again) || answers_.here()) return;
  SteadyTime last = now_;
  if (answers_.ever()) {
    last = answers_.silent_since() + kGone;
  } else if (reasons_.first_error && !interrupted_here_) {
    last = start_ + kStartsTogether;
  }
  if (now_ < last) return;
  for (Member& member : members_) kill(member);
  end(reasons_.first_error.value_or(absl::OkStatus()));
}

// Another attempt at the job wants all places filled.
void Supervisor::look_at_attempt() {
  const std::int64_t before = std::exchange(attempt_, std::max(attempt_, answers_.latest().attempt));
  if (before == 0 || attempt_ <= before) return;
  for (Member& member : members_) {
    if (member.here) continue;
    tell(fmt::format("{} is started again", member.name));
    start(member, attempt_);
  }
}

// A coordinator that does not answer misses nobody: it may be gone for good. Processes that were started again and again
// would never have waited for it for long enough to end.
void Supervisor::start_again_who_is_missed() {
  const Answered& answer = answers_.latest();
  const bool took_over = leads_ && !options_.leads;  // maybe a run that has not trained yet
  // The coordinator waits for the missing processes.
  const bool waiting = (training() || took_over) && !answer.trains;
  for (Member& member : members_) {
    const auto& missing = answer.missing;
    // A member that was started for this attempt gets time to come, unless it has ended: it may have come
    // before the coordinator noticed the end of its predecessor, and was sent away. An attempt that trains waits
    // for servers alone.
    const bool awaited = waiting && (member.attempt < attempt_ || !member.here);
    const bool hangs = answer.trains && member.kind == MemberKind::kServer;
    const bool missed = answers_.here() && (awaited || hangs) &&
                        std::find(missing.begin(), missing.end(), member.name) != missing.end();
    if (!missed) member.missed_since.reset();
    if (missed && !member.missed_since) member.missed_since = now_;
    // The answer has to be that young: this process may have stood still, and the member came meanwhile.
    if (!missed || answers_.heard_at() < *member.missed_since + kMissedLimit) continue;
    kill(member);
    reasons_.failure.reset();
    tell(fmt::format("{} did not come and is started again", member.name));
    start(member, attempt_);
  }
}

// At a job's end the workers leave in order, and one that is killed then is no loss.
void Supervisor::look_whether_any_replica_is_left() {
  const bool any = members_.any_replica_whole();
  if (phase_ == Phase::kTraining && any_whole_before_ && !any && !heard_of_end_) {
    if (reasons_.lost_all.empty()) reasons_.lost_all = lost_worker_;
    stop("no replica is left");
  }
  any_whole_before_ = any;
  lost_worker_.clear();
}

// If the host that led before came back at the same moment, the processes here may have gone to that one.
// Then they heard how the run ended, and the coordinator here still waits for them.
void Supervisor::look_whether_it_ended_elsewhere() {
  const bool took_over = leads_ && !options_.leads;
  if (!took_over || outcome_ || members_.any_but_evaluator() || answers_.latest().trains || !heard_of_end())
    return ended_elsewhere_since_.reset();
  if (!ended_elsewhere_since_) ended_elsewhere_since_ = now_;
  if (now_ < *ended_elsewhere_since_ + kMissedLimit) return;
  tell("another host has led the run to its end");
  put(KillCoordinator{});
  for (Member& member : members_) kill(member);
  end(reasons_.failure.value_or(absl::OkStatus()));
}

}  // namespace paceline::supervisor

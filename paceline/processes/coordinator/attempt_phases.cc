// The phases of an attempt, and every way from one to the next.
#include "paceline/processes/coordinator/attempt.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/exit_reason.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator {

namespace {

constexpr std::chrono::seconds kDisconnectLimit{5};
// The last weights may have to come from other hosts.
constexpr std::chrono::seconds kLastLimit{60};

}  // namespace

std::vector<Action> Attempt::take(Event event) {
  at_ = event.at;
  // A process that comes now comes again, to the next attempt.
  if (phase_ == Phase::kWentBack) return {};
  std::visit([this](const auto& what) { on(what); }, event.what);
  fail_checkpoint_of_missed();
  return out_.take();
}

// ---- The phases ----

void Attempt::enter(Phase next) {
  PACELINE_CHECK(may_follow(phase_, next), "{} does not follow {}", name_of(next), name_of(phase_));
  phase_ = next;
  phase_since_ = at_;
}

void Attempt::on(const TimePassed&) {
  const bool hears = hearing_.is_good(at_);
  if (hears) give_up_silent();
  if (hears) give_up_missed_servers();
  take_up_vote();
  if (hears) end_look();
  give_up_hosts();
  give_up_waiting_for_replicas();
  begin_without_missing();
  tell_of_gone_before_start();
  if (checkpoints_.due(at_)) write_checkpoint(controller_->save());
  write_wanted_checkpoint();
  // An evaluator that does not come must not hold the end up for ever.
  if (phase_ == Phase::kFinishing && evaluator_.missed(phase_since_, at_)) {
    if (!evaluations_.empty())
      out_.tell_and_remember("no evaluator was here in time; what is not measured yet stays so");
    evaluations_.give_up();
  }
  finish_if_done();
}

void Attempt::on(const WokeUp&) {
  if (controller_ == nullptr) return;
  const absl::Status status = tell_controller(control::TimerRang{});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
}

void Attempt::on(const StopWanted& wanted) {
  if (phase_ == Phase::kStarting && !wanted.cannot_start.empty())
    return fail(absl::FailedPreconditionError(wanted.cannot_start));
  if (!asked_) asked_ = wanted;
  stop(wanted.why);
}

std::optional<StopWanted> Attempt::interrupted() const {
  return done_ || !asked_ || asked_->cause == StopCause::kAsked ? std::nullopt : asked_;
}

void Attempt::stop(const std::string& why, control::FinishCause cause) {
  // While it starts or finishes too: should a server be lost then, nothing is trained again.
  const bool before = std::exchange(stop_asked_, true);
  if (phase_ == Phase::kStarting) return finish();
  if (before || !training()) return;
  const absl::Status status = controller_->take(at_, control::StopAsked{why, cause});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
}

// The run cannot go on, in this attempt or another.
void Attempt::fail(absl::Status status) {
  if (disconnecting() || phase_ == Phase::kWentBack) return;
  result_.Update(status);
  evaluations_.forget();
  checkpoints_.forget();
  if (controller_ != nullptr) controller_->end();
  send_disconnect();
}

// Commits after the last checkpoint are lost. The streams just end, and a process that hears no disconnect
// comes again.
void Attempt::go_back(const std::string& why) {
  // A run that never started is not tried again and again, but a run that has trained before is. A run that
  // has ended is over once its last checkpoint is there, and a person who asks for a stop gets one.
  const bool worth_it = started() || options_.again || options_.restart.has_value();
  if (!worth_it || stop_asked_ || !result().ok())
    return fail(with_exit_reason(absl::UnavailableError(why), ExitReason::kMemberLost));
  enter(Phase::kWentBack);
  result_.Update(absl::UnavailableError(why));
  if (controller_ != nullptr) controller_->end();
  out_.put(End{});
}

// `server`: nothing if two of them cannot reach each other. If shards are kept twice, the other servers first
// write their versions.
void Attempt::lose_server(std::optional<ServerId> server, const std::string& why) {
  if (phase_ == Phase::kWentBack || disconnecting()) return;
  const bool copied = replication_ && (started() || saving_copies());
  if (!copied || !result_.ok()) return go_back(why);
  if (!saving_copies()) {
    lost_why_ = why;
    enter(Phase::kSavingCopies);
    controller_->end();
    evaluations_.forget();
    checkpoints_.forget();
  }
  go_on_from_emergency_checkpoint(replication_->lose(server, checkpoints_.newest()));
}

void Attempt::go_on_from_emergency_checkpoint(const absl::Status& step) {
  if (!saving_copies() || (step.ok() && !replication_->saved())) return;
  if (step.ok() && !started()) out_.put(NothingLost{});
  if (!step.ok()) lost_why_ += fmt::format(", and its copies could not be reached: {}", message_of(step));
  if (!stop_asked_ || !step.ok()) return go_back(lost_why_);
  send_disconnect();
}

void Attempt::finish() {
  enter(Phase::kFinishing);
  checkpoints_.end();
  if (controller_ != nullptr) controller_->end();
  finish_if_done();
}

void Attempt::finish_if_done() {
  if (phase_ == Phase::kDisconnecting) {
    const bool all_gone = workers_.size() == 0 && servers_.none_here() && !evaluator_.here();
    if (!all_gone && at_ <= phase_since_ + kDisconnectLimit) return;
    enter(Phase::kOver);
    out_.put(End{});
  }
  if (phase_ != Phase::kFinishing || !evaluations_.empty() || checkpoints_.writing()) return;
  if (result_.ok() && started() && controller_->version() != checkpoints_.newest()) {
    if (!checkpoints_.waits(at_)) write_checkpoint(controller_->save());
    return;
  }
  if (!workers_take_last()) send_disconnect();
}

// A program goes on after a job that is done, with the last weights in its model. The servers are here until it has them.
bool Attempt::workers_take_last() {
  if (!result().ok() || !done_ || !started() || !options_.job.program) return false;
  if (!last_since_) {
    last_since_ = at_;
    wire::WorkerOrder order;
    order.mutable_take_last()->set_version(controller_->version().value());
    std::set<HostPlace> hosts;
    for (auto& [peer, worker] : workers_.all()) {
      if (!worker.joined) continue;
      worker.takes_last = true;
      if (hosts.insert(worker.host).second) want(worker.host, controller_->version());
      out_.send(peer, order);
    }
  }
  return at_ <= *last_since_ + kLastLimit &&
         std::any_of(workers_.all().begin(), workers_.all().end(),
                     [](const auto& one) { return one.second.takes_last; });
}

void Attempt::send_disconnect() {
  enter(Phase::kDisconnecting);
  const wire::Disconnect disconnect = disconnect_order();
  for (const auto& [peer, worker] : workers_.all()) out_.send_disconnect(peer, disconnect);
  servers_.send_disconnect(disconnect);
  evaluator_.send_disconnect(disconnect);
}

wire::Disconnect Attempt::disconnect_order() const {
  wire::Disconnect disconnect;
  disconnect.set_failed(!result().ok());
  disconnect.set_stopped(result().ok() && !done_);
  disconnect.set_why(message_of(result()));
  if (!disconnect.stopped() || !asked_) return disconnect;
  disconnect.set_interrupted(interrupted().has_value());
  disconnect.set_why(asked_->why);
  return disconnect;
}

Version Attempt::seen() const {
  if (controller_ == nullptr) return Version(0);
  return replication_ ? replication_->certain() : controller_->version();
}

// ---- Checkpoints ----

void Attempt::write_checkpoint(control::ControllerState state) {
  checkpoints_.write(std::move(state), time(at_).time_since_epoch(), at_);
}

void Attempt::on(const CheckpointWanted& wanted) {
  checkpoints_.want(wanted.why);
  write_wanted_checkpoint();
}

void Attempt::write_wanted_checkpoint() {
  if (training() && checkpoints_.is_wanted(controller_->version(), at_))
    write_checkpoint(controller_->save());
}

void Attempt::on(const CheckpointOpened& opened) {
  // The first request is answered first: a checkpoint may have been due in the moment of the loss.
  if (saving_copies() && !checkpoints_.opening())
    return go_on_from_emergency_checkpoint(replication_->opened(opened.folder));
  result_.Update(checkpoints_.opened(opened.folder, at_));
  finish_if_done();
}

void Attempt::on(const CheckpointCounted& counted) {
  if (saving_copies()) return go_on_from_emergency_checkpoint(replication_->counted(counted.status));
  // The checkpoint had the servers' remaining versions, and the attempt has ended since.
  if (!checkpoints_.writing()) return;
  result_.Update(checkpoints_.counted(counted.status, at_, time(at_)));
  finish_if_done();
}

}  // namespace paceline::coordinator

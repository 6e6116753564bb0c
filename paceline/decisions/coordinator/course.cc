#include "paceline/decisions/coordinator/course.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/exit_reason.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator {

namespace {

constexpr std::chrono::seconds kDisconnectLimit{5};
// A process whose coordinator died tries each second to come again. The server of a host may come before its workers.
constexpr std::chrono::seconds kReturnLimit{10};
constexpr std::chrono::seconds kWorkersLater{2};
// The last weights may have to come from other hosts, over a slow network.
constexpr std::chrono::seconds kLastLimit{60};
constexpr std::int64_t kSlowNetwork = 100'000'000;  // bytes a second

std::optional<Version> version_of(const std::optional<Restart>& restart) {
  if (!restart) return std::nullopt;
  return restart->state.version;
}

}  // namespace

Course::Course(const AttemptOptions& options, Processes& processes, Outbox& out,
               TimedController::CarryOut carry_out, TimedController::Waiting waiting)
    : options_(options),
      processes_(processes),
      out_(out),
      carry_out_(std::move(carry_out)),
      waiting_(std::move(waiting)),
      start_(std::in_place, options, processes, out),
      checkpoints_(
          processes.servers.size(), [this](const auto& order) { processes_.servers.tell(order); }, out,
          version_of(options.restart)) {
  if (options.job.copies > 1)
    replication_.emplace(options.job, options.begins_with(), processes.servers, out);
}

absl::Status Course::make_controller(std::int64_t dataset_size, DataOrder data_order, bool on_card) {
  control::ControllerConfig config = options_.job.controller(dataset_size);
  config.data_order = std::move(data_order);
  if (const auto& restart = options_.restart)
    PACELINE_RETURN_IF_ERROR(same_data(restart->data_order, config.data_order, restart->state.ledger.next));
  config.keep_states = replication_.has_value();
  std::unique_ptr<control::Replanner> replanner;
  if (options_.job.replanner) {
    PACELINE_ASSIGN_OR_RETURN(replanner, control::Replanner::create(*options_.job.replanner));
  }
  auto controller = std::make_unique<TimedController>(
      config, policy::make_policy(options_.job.policy), out_,
      [this](const control::Order& order, const TimedController::ReleasedNext& released) {
        if (start_ && started()) enter(Phase::kTraining);
        carry_out_(order, released);
      },
      replication_.has_value(), std::move(replanner));
  if (options_.restart)
    PACELINE_RETURN_IF_ERROR(controller->restore(options_.restart->state, options_.restart->elapsed));
  // Foresight costs processors more than the wait that it saves, so jobs that compute on processors do without it.
  if (options_.job.foresees && on_card) {
    const auto tell = [this](const auto& order) { processes_.servers.tell(order); };
    controller->foresee(processes_.servers.size(), tell, waiting_);
  }
  controller_ = std::move(controller);
  Begin begin{std::move(config), controller_->bounds()};
  if (options_.restart) begin.state = options_.restart->state;
  out_.put(std::move(begin));
  return absl::OkStatus();
}

absl::Status Course::take(decltype(control::Fact::what) what) {
  if (start_ && std::holds_alternative<control::ReplicaJoined>(what)) start_->told_of_replica();
  return controller_->take(at_, std::move(what));
}

void Course::unmap_gradient(ReplicaId replica) {
  const UnmapGradient order{replica};
  if (controller_ == nullptr || !controller_->tell_later(order)) processes_.servers.tell(order);
}

void Course::answered(ServerId server, const ServerRevoked& answer) {
  if (!training()) return;
  controller_->answered(at_, server, answer.version, answer.made);
  go_back_if_lost();
}

void Course::server_is_back(ServerId server, const KeptShard& kept) {
  if (!training()) return;
  if (auto expect = controller_->back(at_, server, kept.version, kept.begun))
    processes_.servers.tell_one(server, *std::move(expect));
  go_back_if_lost();
}

void Course::go_back_if_lost() {
  if (!training()) return;
  if (const auto replica = controller_->lost()) go_back(fmt::format("replica {} {}", *replica, kReadyUnsaid));
}

// ---- The ways on

void Course::enter(Phase next) {
  PACELINE_CHECK(may_follow(phase_, next), "{} does not follow {}", name_of(next), name_of(phase_));
  phase_ = next;
  phase_since_ = at_;
  start_.reset();
}

void Course::start_servers_if_ready() {
  if (!start_) return;
  const bool announce = controller_ != nullptr && controller_->hears_of_completion();
  const auto told = start_->start_servers(announce);
  if (!told.ok()) return fail(told.status());
  if (*told && options_.restart && replication_) measure_restart();
}

// The commits up to there are not done again, and their evaluation may have been under way.
void Course::measure_restart() {
  if (!options_.job.evaluates) return;
  control::CommitRecord record;
  record.version = options_.restart->state.version;
  record.committed_before = options_.restart->state.ledger.committed();
  record.keep_for_evaluation = true;
  processes_.measuring.committed(record, now(), controller_->finished());
}

void Course::came(ServerId server, const Ballot& ballot) {
  if (!start_) return;
  start_->came(server, ballot, at_);
  save_or_start();
}

void Course::has_copy() {
  if (!start_) return;
  start_->has_copy();
  save_or_start();
}

void Course::save_or_start() {
  if (auto newer = start_->newer_version(at_)) return save(*std::move(newer));
  start_servers_if_ready();
}

void Course::save(RecoveryVote::Found newer) {
  lost_why_ = fmt::format("the servers still had version {}", newer.snapshot.state.version);
  enter(Phase::kSavingCopies);
  replication_->take_up(std::move(newer));
}

void Course::time_passed() {
  write_waiting_checkpoint();
  go_back_if_lost();
  if (phase_ == Phase::kFinishing) processes_.measuring.give_up_waiting(phase_since_, at_);
  finish_if_done();
}

void Course::stop(const StopWanted& wanted) {
  if (start_ && !wanted.cannot_start.empty()) return fail(absl::FailedPreconditionError(wanted.cannot_start));
  if (!asked_) asked_ = wanted;
  stop(wanted.why);
}

void Course::stop(const std::string& why, control::FinishCause cause) {
  // While it starts or finishes too: should a server be lost then, nothing is trained again.
  const bool before = std::exchange(stop_asked_, true);
  if (start_) return finish(false);
  if (before || !training()) return;
  const absl::Status status = take(control::StopAsked{why, cause});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
}

void Course::stop_without_plan(const std::string& why) {
  no_plan_ = absl::ResourceExhaustedError(fmt::format("the devices that are left cannot go on: {}", why));
  stop("no plan is possible any more");
}

std::optional<StopWanted> Course::interrupted() const {
  return done_ || !asked_ || asked_->cause == StopCause::kAsked ? std::nullopt : asked_;
}

void Course::end_training() {
  processes_.measuring.forget();
  checkpoints_.forget();
  if (controller_ != nullptr) controller_->end();
}

void Course::fail(absl::Status status) {
  if (decided()) return;
  result_.Update(status);
  end_training();
  send_disconnect();
}

void Course::go_back(const std::string& why) {
  // A run that never started is not tried again and again, but a run that has trained before is. A run that
  // has ended is over once its last checkpoint is there, and a person who asks for a stop gets one.
  const bool worth_it = started() || options_.again || options_.restart.has_value();
  if (!worth_it || stop_asked_ || !result().ok())
    return fail(with_exit_reason(absl::UnavailableError(why), ExitReason::kMemberLost));
  end_without_disconnect(absl::UnavailableError(why));
}

void Course::leave_lead() {
  end_without_disconnect(
      with_exit_reason(absl::UnavailableError("another host leads the run"), ExitReason::kLeavesLead));
}

// The streams just end, and a process that hears no disconnect comes again.
void Course::end_without_disconnect(absl::Status why) {
  enter(Phase::kWentBack);
  result_.Update(std::move(why));
  if (controller_ != nullptr) controller_->end();
  out_.put(End{});
}

void Course::lose_server(std::optional<ServerId> server, const std::string& why) {
  if (decided()) return;
  const bool copied = replication_ && (started() || saving_copies());
  if (!copied || !result_.ok()) return go_back(why);
  if (!saving_copies()) {
    lost_why_ = why;
    enter(Phase::kSavingCopies);
    end_training();
  }
  go_on_from_emergency_checkpoint(replication_->lose(server, checkpoints_.newest()));
}

void Course::go_on_from_emergency_checkpoint(const absl::Status& step) {
  if (!saving_copies() || (step.ok() && !replication_->saved())) return;
  if (step.ok() && !started()) out_.put(NothingLost{});
  if (!step.ok()) lost_why_ += fmt::format(", and its copies could not be reached: {}", message_of(step));
  if (!stop_asked_ || !step.ok()) return go_back(lost_why_);
  send_disconnect();
}

void Course::finish(bool done) {
  done_ = done;
  enter(Phase::kFinishing);
  checkpoints_.end();
  if (controller_ != nullptr) controller_->end();
  finish_if_done();
}

void Course::finish_if_done() {
  if (phase_ == Phase::kDisconnecting) {
    if (!all_know_the_end()) return;
    enter(Phase::kOver);
    out_.put(End{});
  }
  if (phase_ != Phase::kFinishing || processes_.measuring.waiting() > 0 || checkpoints_.writing()) return;
  if (result_.ok() && started() && controller_->version() != checkpoints_.newest()) {
    if (!checkpoints_.waits(at_) && processes_.servers.all_started()) write_checkpoint(controller_->save());
    return;
  }
  if (!workers_take_last()) send_disconnect();
}

// A program goes on after a job that is done, with the last weights in its model. The servers are here until it has them.
bool Course::workers_take_last() {
  if (!result().ok() || !done_ || !started() || !options_.job.has_program) return false;
  auto& workers = processes_.workers.all();
  if (!last_since_) {
    last_since_ = at_;
    std::set<HostPlace> hosts;
    for (auto& [peer, worker] : workers) {
      if (!worker.joined) continue;
      worker.takes_last = true;
      if (hosts.insert(worker.host).second) processes_.servers.want(worker.host, version());
      out_.send(peer, TakeLast{version()});
    }
  }
  const std::int64_t bytes = processes_.servers.whole().size() * static_cast<std::int64_t>(sizeof(float));
  return at_ <= *last_since_ + kLastLimit + std::chrono::seconds(bytes / kSlowNetwork) &&
         std::any_of(workers.begin(), workers.end(), [](const auto& one) { return one.second.takes_last; });
}

void Course::send_disconnect() {
  enter(Phase::kDisconnecting);
  const Disconnect disconnect = disconnect_order();
  first_ = processes_.workers.first_left();
  for (const auto& [peer, worker] : processes_.workers.all())
    out_.send_disconnect(peer, disconnect_order(peer));
  // If the coordinator of an earlier attempt died, processes of other hosts may not be back yet.
  if (options_.again && options_.job.hosts > 1) coming_ = processes_.servers.missing();
  processes_.servers.send_disconnect(disconnect);
  processes_.measuring.send_disconnect(disconnect);
}

bool Course::all_know_the_end() const {
  if (!processes_.all_gone() && at_ <= phase_since_ + kDisconnectLimit) return false;
  if (!coming_.empty()) return at_ > phase_since_ + kReturnLimit;
  return !last_came_ || at_ > *last_came_ + kWorkersLater;
}

Disconnect Course::disconnect_order() const {
  Disconnect disconnect{
      .why = message_of(result()), .failed = !result().ok(), .stopped = result().ok() && !done_};
  if (!disconnect.stopped || !asked_) return disconnect;
  disconnect.interrupted = interrupted().has_value();
  disconnect.why = asked_->why;
  return disconnect;
}

// Without a worker at the end, the one that comes first is the first.
Disconnect Course::disconnect_order(WorkerPeer peer) {
  if (!first_) first_ = peer;
  Disconnect disconnect = disconnect_order();
  disconnect.first = peer == *first_;
  return disconnect;
}

// ---- Versions, copies and checkpoints

const CommitQuorum::Snapshot* Course::ordered(Version version) {
  if (!replication_) return nullptr;
  replication_->ordered(controller_->take_states(), now().time_since_epoch());
  return &replication_->ordered(version);
}

absl::Status Course::prepared(ServerId server, Version version) {
  return replication_ ? replication_->prepared(server, version) : absl::OkStatus();
}

void Course::copy_written(ServerId server, const CopyWritten& message) {
  if (saving_copies()) go_on_from_emergency_checkpoint(replication_->written(server, message));
}

void Course::write_checkpoint(control::ControllerState state) {
  checkpoints_.write(std::move(state), now().time_since_epoch(), at_);
}

void Course::want_checkpoint(const std::string& why) {
  checkpoints_.want(why);
  write_waiting_checkpoint();
}

// A try without all servers would fail at once.
void Course::write_waiting_checkpoint() {
  if (!processes_.servers.all_started()) return;
  if (checkpoints_.due(at_) && settle()) write_checkpoint(controller_->save());
  if (training() && checkpoints_.is_wanted(controller_->version(), at_) && settle())
    write_checkpoint(controller_->save());
}

void Course::opened(const absl::StatusOr<std::string>& folder) {
  // The first request is answered first: a checkpoint may have been due in the moment of the loss.
  if (saving_copies() && !checkpoints_.opening())
    return go_on_from_emergency_checkpoint(replication_->opened(folder));
  result_.Update(checkpoints_.opened(folder, at_));
  finish_if_done();
}

void Course::written(ServerId server, const ServerWritten& message) {
  result_.Update(checkpoints_.written(server, message, at_));
  finish_if_done();
}

void Course::counted(const absl::Status& status) {
  if (saving_copies()) return go_on_from_emergency_checkpoint(replication_->counted(status));
  // The checkpoint had the servers' remaining versions, and the attempt has ended since.
  if (!checkpoints_.writing()) return;
  result_.Update(checkpoints_.counted(status, at_, now()));
  finish_if_done();
}

void Course::lose_files(ServerId server, const std::string& why) {
  result_.Update(checkpoints_.lost(server, why, at_));
}

}  // namespace paceline::coordinator

#include "paceline/cluster_sim/coordinator_process.h"

#include <algorithm>
#include <utility>

#include "paceline/control/observer.h"

namespace paceline::cluster_sim {

using coordinator::Action;

namespace {

constexpr Milliseconds kTick{200};

template <class... Cases>
struct ByType : Cases... {
  using Cases::operator()...;
};

}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, const Network& network, const Scenario& scenario,
                                       RunFolder& folder, Watch& watch, Break broken)
    : Process(world, "coordinator"),
      network_(network),
      scenario_(scenario),
      folder_(folder),
      watch_(watch),
      break_(broken) {}

void CoordinatorProcess::begin() {
  restarts_ = {};
  told_to_stop_ = false;  // who wants it says so again
  given_up_.clear();
  again_ = !folder_.attempts.empty();
  begin_attempt();
}

void CoordinatorProcess::gone() {
  actions_left_.reset();
  abandon_all(true);
  attempt_.reset();
}

// Of the newest attempt that committed anything, unless it said what was lost.
std::optional<coordinator::CutShort> CoordinatorProcess::cut_short(Version from) const {
  for (auto one = folder_.attempts.rbegin(); one != folder_.attempts.rend(); ++one) {
    if (!one->newest) continue;
    if (one->says_what_was_lost || *one->newest <= from) return std::nullopt;
    return coordinator::CutShort{fmt::format("run {}", one->number), *one->newest};
  }
  return std::nullopt;
}

void CoordinatorProcess::begin_attempt() {
  if (told_to_stop_) world_.broken("the run goes on, though it was told to stop");
  const SavedCheckpoint* newest = folder_.newest();
  std::string newest_folder;
  for (const auto& [name, one] : folder_.checkpoints) {
    if (&one == newest) newest_folder = name;
  }
  if (break_ == Break::kOldCheckpoint && newest != nullptr) {
    for (const auto& [name, one] : folder_.checkpoints) {
      if (one.counts && one.state.version < newest->state.version) newest = &one, newest_folder = name;
    }
  }
  watch_.goes_on_from(newest);
  const Version from = newest == nullptr ? Version(0) : newest->state.version;
  ordered_ = from;
  coordinator::AttemptOptions options;
  options.job = scenario_.job;
  options.job_toml = scenario_.job_toml;
  options.again = again_;
  options.given_up = given_up_;
  options.cut_short = cut_short(from);
  options.new_key = [] { return std::string("a key"); };
  if (newest != nullptr)
    options.restart = coordinator::Restart{newest->state, newest->elapsed, newest_folder};
  const std::int64_t number = std::ssize(folder_.attempts) + 1;
  folder_.attempts.push_back({number});
  options.attempt = fmt::format("run {}", number);
  world_.trace("attempt {} begins from version {}{}", number, from,
               options.cut_short ? fmt::format("; {} was cut short at {}", options.cut_short->attempt,
                                               options.cut_short->newest)
                                 : "");
  recorded_.reset();
  open_checkpoint_.clear();
  witnesses_.reset();
  trained_ = ended_attempt_ = false;
  phase_ = coordinator::Phase::kStarting;
  attempt_ = std::make_unique<coordinator::Attempt>(std::move(options), world_.now());
  again_ = true;
  after(kTick, [this, number] {
    if (attempt_number() == number) tick();
  });
}

void CoordinatorProcess::tick() {
  if (!attempt_) return;
  const std::int64_t number = attempt_number();
  take(coordinator::TimePassed{});
  if (!alive() || !attempt_ || attempt_number() != number) return;
  if (const absl::Status kept = flush_records(); !kept.ok()) take(coordinator::RecordingFailed{kept});
  if (!alive() || !attempt_ || attempt_number() != number) return;
  after(kTick, [this, number] {
    if (attempt_number() == number) tick();
  });
}

absl::Status CoordinatorProcess::flush_records() {
  if (!recorded_) return absl::OkStatus();
  if (folder_.full) return absl::ResourceExhaustedError("the journal cannot be written: the disk is full");
  folder_.attempts.back().newest = recorded_;
  return absl::OkStatus();
}

// ---- What happens ----

void CoordinatorProcess::heard(coordinator::WorkerPeer peer, wire::WorkerMessage message) {
  take(coordinator::WorkerSaid{peer, std::move(message), "somewhere"});
}

void CoordinatorProcess::heard(coordinator::ServerPeer peer, wire::ServerMessage message) {
  if (break_ == Break::kLateReply) {
    if (message.has_prepared() || message.has_written()) late_ = {attempt_number(), message};
    if (message.has_started() && late_ && late_->first < attempt_number())
      after(Milliseconds(1), [this, peer, late = std::exchange(late_, std::nullopt)->second] {
        take(coordinator::ServerSaid{peer, late, "somewhere"});
      });
  }
  take(coordinator::ServerSaid{peer, std::move(message), "somewhere"});
}

void CoordinatorProcess::heard(coordinator::EvaluatorPeer peer, wire::EvaluatorMessage message) {
  take(coordinator::EvaluatorSaid{peer, std::move(message), "somewhere"});
}

void CoordinatorProcess::closed(coordinator::WorkerPeer peer) {
  workers_.erase(peer);
  if (break_ != Break::kNobodyMissed) return take(coordinator::WorkerGone{peer});
  // Nor is its silence.
  const auto still_beats = std::make_shared<std::function<void()>>();
  *still_beats = [this, peer, number = attempt_number(), still_beats] {
    if (attempt_number() != number) return;
    wire::WorkerMessage message;
    message.mutable_heartbeat();
    take(coordinator::WorkerSaid{peer, message, "nowhere"});
    after(kHeartbeat, *still_beats);
  };
  (*still_beats)();
}

void CoordinatorProcess::closed(coordinator::ServerPeer peer) {
  servers_.erase(peer);
  take(coordinator::ServerGone{peer});
}

void CoordinatorProcess::closed(coordinator::EvaluatorPeer peer) {
  evaluators_.erase(peer);
  take(coordinator::EvaluatorGone{peer});
}

void CoordinatorProcess::take(What what) {
  if (!attempt_) return;
  if (std::holds_alternative<coordinator::StopWanted>(what)) stopped_ = told_to_stop_ = true;
  carry_out(attempt_->take({world_.now(), std::move(what)}));
  if (ended_attempt_ && alive()) end_attempt();
}

void CoordinatorProcess::note_phase() {
  const coordinator::Phase now = attempt_->phase();
  if (now == phase_) return;
  world_.trace("attempt {}: {} → {}", attempt_number(), coordinator::name_of(phase_),
               coordinator::name_of(now));
  ++transitions_[{phase_, now}];
  phase_ = now;
}

// ---- What is to be done ----

void CoordinatorProcess::carry_out(std::vector<Action> actions) {
  note_phase();
  for (Action& action : actions) {
    if (actions_left_ && (*actions_left_)-- <= 0) return kill();
    auto answer = carry_out(action);
    if (!answer) continue;
    const bool recording_failed = std::holds_alternative<coordinator::RecordingFailed>(*answer);
    carry_out(attempt_->take({world_.now(), *std::move(answer)}));
    if (!alive() || recording_failed) return;
  }
}

template <class K, class SendOne>
void CoordinatorProcess::send(SendOne& one) {
  const auto found = streams<K>().find(one.to);
  if (found != streams<K>().end()) found->second->order(std::move(one.order), one.last);
}

void CoordinatorProcess::before_sending(const wire::ServerOrder& order) {
  if (!order.has_apply() || Version(order.apply().version()) <= ordered_) return;
  ordered_ = Version(order.apply().version());
  watch_.commits(order.apply());
  if (scenario_.job.copies > 1 && break_ != Break::kNone && folder_.attempts.back().newest < ordered_) {
    if (break_ != Break::kIgnoreJournal)
      world_.broken(fmt::format("version {} is ordered, and not in the journal", ordered_));
  }
}

std::optional<CoordinatorProcess::What> CoordinatorProcess::carry_out(Action& action) {
  std::optional<What> answer;
  std::visit(ByType{
                 [&](coordinator::SendWorker& one) {
                   if (one.order.has_release() && !std::exchange(trained_, true)) {
                     ever_trained_ = true;
                     const SavedCheckpoint* newest = folder_.newest();
                     watch_.trains_from(newest == nullptr || newest->state.version > ordered_
                                            ? ordered_
                                            : newest->state.version,
                                        scenario_.job.copies > 1);
                   }
                   world_.trace("coordinator → worker {}: {}", one.to, one.order.ShortDebugString());
                   send<WorkerKind>(one);
                 },
                 [&](coordinator::SendServer& one) {
                   before_sending(one.order);
                   if (break_ == Break::kForgetApply && one.order.has_apply() && world_.chance(0.1)) return;
                   if (!one.order.has_start())
                     world_.trace("coordinator → server {}: {}", one.to, one.order.ShortDebugString());
                   if (break_ == Break::kApplyTwice && one.order.has_apply() && world_.chance(0.1)) {
                     coordinator::SendServer copy = one;
                     send<ServerKind>(copy);
                   }
                   send<ServerKind>(one);
                 },
                 [&](coordinator::SendEvaluator& one) {
                   world_.trace("coordinator → evaluator {}: {}", one.to, one.order.ShortDebugString());
                   send<EvaluatorKind>(one);
                 },
                 [&](const coordinator::HangUp& one) {
                   if (const auto found = evaluators_.find(one.peer); found != evaluators_.end())
                     found->second->hang_up();
                 },
                 [&](const coordinator::Begin& begin) {
                   witnesses_.emplace(control::Observer(begin.bounds, begin.config.dataset_size,
                                                        begin.config.total_samples, begin.state),
                                      std::vector<control::RunListener*>{});
                 },
                 [&](const coordinator::Record& record) {
                   if (const auto complaint = witnesses_->record(record.fact, record.orders))
                     world_.broken(*complaint);
                   for (const control::Order& order : record.orders) {
                     if (const auto* commit = std::get_if<control::CommitRecord>(&order))
                       recorded_ = commit->version;
                   }
                 },
                 [&](const coordinator::FlushRecords&) {
                   if (break_ == Break::kIgnoreJournal) return;
                   if (const absl::Status kept = flush_records(); !kept.ok())
                     answer = coordinator::RecordingFailed{kept};
                 },
                 [&](const coordinator::WakeUp& wake) {
                   const std::uint64_t number = ++wake_;
                   world_.at(wake.at, happening([this, number] {
                               if (number == wake_) take(coordinator::WokeUp{});
                             }));
                 },
                 [&](const coordinator::OpenCheckpoint& open) {
                   if (folder_.full) {
                     answer = coordinator::CheckpointOpened{absl::ResourceExhaustedError("the disk is full")};
                     return;
                   }
                   open_checkpoint_ = fmt::format("version {}, {}", open.version, ++checkpoints_opened_);
                   folder_.checkpoints[open_checkpoint_] = {};
                   answer = coordinator::CheckpointOpened{open_checkpoint_};
                 },
                 [&](const coordinator::CountCheckpoint& count) {
                   absl::Status kept = flush_records();
                   if (kept.ok() && folder_.full) kept = absl::ResourceExhaustedError("the disk is full");
                   if (kept.ok()) {
                     SavedCheckpoint& saved = folder_.checkpoints[open_checkpoint_];
                     saved.state = count.state;
                     saved.elapsed = count.elapsed;
                     saved.counts = true;
                     world_.trace("the checkpoint of version {} counts", count.state.version);
                     watch_.counts(saved);
                   }
                   answer = coordinator::CheckpointCounted{kept};
                 },
                 [&](const coordinator::DropCheckpoint&) { folder_.checkpoints.erase(open_checkpoint_); },
                 [&](const control::Evaluated&) {},
                 [&](const control::SideWork&) {},
                 [&](const store::ProcessReport&) {},
                 [&](const control::SearchPlan& search) {
                   after(world_.between(1, 300), [this, search, number = attempt_number()] {
                     if (attempt_number() == number) take(coordinator::PlanFound{control::searched(search)});
                   });
                 },
                 [&](const coordinator::Tell& tell) { world_.trace("coordinator says: {}", tell.line); },
                 [&](const coordinator::NothingLost&) {
                   for (AttemptInJournal& one : folder_.attempts)
                     one.says_what_was_lost |= one.number < attempt_number();
                 },
                 [&](const coordinator::End&) { ended_attempt_ = true; },
             },
             action);
  return answer;
}

void CoordinatorProcess::abandon_all(bool dead) {
  for (const auto& [peer, stream] : std::exchange(workers_, {})) stream->abandon(dead);
  for (const auto& [peer, stream] : std::exchange(servers_, {})) stream->abandon(dead);
  for (const auto& [peer, stream] : std::exchange(evaluators_, {})) stream->abandon(dead);
}

std::optional<supervisor::Answered> CoordinatorProcess::status() const {
  if (!alive() || !attempt_) return std::nullopt;
  return supervisor::Answered{"run", attempt_number(), attempt_->started(), attempt_->missing()};
}

void CoordinatorProcess::end_attempt() {
  const auto attempt = std::move(attempt_);
  const absl::Status status = attempt->result();
  world_.trace("attempt {} is over: {}", attempt_number(),
               status.ok() ? "done" : std::string(status.message()));
  abandon_all(false);
  const SavedCheckpoint* newest = folder_.newest();
  const Version kept = newest == nullptr ? Version(0) : newest->state.version;
  if (attempt->can_go_on() && (attempt->seen() <= kept || scenario_.job.copies == 1))
    folder_.attempts.back().says_what_was_lost = true;
  const absl::Status recorded = flush_records();
  if (!attempt->can_go_on() || !recorded.ok()) {
    outcome_ = status.ok() ? recorded : status;
    return end(*outcome_);
  }
  given_up_.insert(attempt->wrong_workers().begin(), attempt->wrong_workers().end());
  if (!restarts_.again(newest == nullptr ? std::nullopt : std::optional(newest->state.version))) {
    outcome_ = absl::UnavailableError("too many attempts without a new checkpoint");
    return end(*outcome_);
  }
  begin_attempt();
}

}  // namespace paceline::cluster_sim

#include "paceline/simulation/cluster_sim/coordinator_process.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/observer.h"
#include "paceline/formats/config/coordinator_settings.h"
#include "paceline/formats/wire/coordinator_messages.h"
#include "paceline/formats/wire/coordinator_orders.h"
#include "paceline/records/store/state_text.h"
#include "paceline/simulation/cluster_sim/shown.h"

namespace paceline::cluster_sim {

namespace {

constexpr Milliseconds kTick{200};
// How long the coordinator waits for a keeper that has not come yet.
constexpr Milliseconds kKeeperComes{3000};

absl::Status full_disk() { return absl::ResourceExhaustedError("the disk is full"); }

}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, const Network& network, const Scenario& scenario,
                                       Disks& disks, Watch& watch, Break broken, Home home)
    : Process(world, "coordinator", home),
      network_(network),
      scenario_(scenario),
      disks_(disks),
      folder_(disks.of(home.host)),
      watch_(watch),
      break_(broken) {}

absl::Status CoordinatorProcess::lead(const supervisor::StartCoordinator& start) {
  if (folder_.lock && break_ != Break::kTwoLeaders)
    return absl::FailedPreconditionError("another process has the run folder");
  start_ = start;
  outcome_.reset();
  Process::start();
  // A run of which no other host is the leader may end at once, because it cannot be led from here.
  return alive() ? absl::OkStatus() : *outcome_;
}

void CoordinatorProcess::begin() {
  folder_.lock = host();
  watch_.leads(host(), !disks_.own());
  told_to_stop_ = false;  // a person who wants a stop asks again
  begun_ = false;
  job_ = scenario_.job;
  job_toml_ = scenario_.job_toml;
  attempts_.emplace(coordinator::AttemptsOptions{.job_file = "job.toml",
                                                 .host = HostRank(host()),
                                                 .copies = job_.copies,
                                                 .hosts = job_.hosts,
                                                 .shared_folder = !disks_.own(),
                                                 .again = start_.again,
                                                 .lost_host = start_.without});
  taken_up_ = folder_.mark.has_value();
  mark_ = ++folder_.marks;
  folder_.mark = mark_;
  coordinator::FolderBefore before{.newest = folder_.newest_version()};
  if (const AttemptInJournal* one = folder_.cut_short())
    before.cut_short = coordinator::CutShortAttempt{*one->newest, one->without};
  carry_out(attempts_->begin(before));
}

void CoordinatorProcess::gone() {
  actions_left_.reset();
  abandon_all(true);
  attempt_.reset();
  if (folder_.lock == host()) folder_.lock.reset();
  watch_.leads_no_more(host());
}

// ---- Attempts ----

void CoordinatorProcess::carry_out(const std::vector<coordinator::AttemptsOrder>& orders) {
  for (const coordinator::AttemptsOrder& order : orders) {
    if (const auto* tell = std::get_if<coordinator::Tell>(&order)) on(*tell);
    if (const auto* leave_out = std::get_if<coordinator::LeaveOut>(&order)) {
      if (const absl::Status left = on(*leave_out); !left.ok()) return finish(left);
    }
    if (const auto* run = std::get_if<coordinator::RunAttempt>(&order)) on(*run);
    if (const auto* end = std::get_if<coordinator::EndRun>(&order)) on(*end);
  }
}

absl::Status CoordinatorProcess::on(const coordinator::LeaveOut& order) {
  world_.trace("the job goes on without hosts [{}]", fmt::join(order.hosts, ", "));
  PACELINE_ASSIGN_OR_RETURN(
      job_toml_, config::resolve_job(scenario_.job_toml, "job.toml",
                                     {fmt::format("cluster.without=[{}]", fmt::join(order.hosts, ","))}));
  auto job = config::parse_job(job_toml_, "job.toml");
  needs_more_hosts_ = !job.ok();
  if (job.ok()) job_ = *std::move(job);
  left_out_.insert(order.hosts.begin(), order.hosts.end());
  return job.status();
}

void CoordinatorProcess::on(const coordinator::EndRun& order) { finish(order.status); }

void CoordinatorProcess::finish(const absl::Status& outcome) {
  outcome_ = outcome;
  // A coordinator that could not take up the run, or leaves the lead, has not ended it: another host may take it up, or
  // this one later.
  const bool leaves = exit_reason_of(outcome) == ExitReason::kLeavesLead;
  if (!leaves && (begun_ || !taken_up_)) folder_.mark.reset();
  if (kept_ && keeps_(*keeper_) && !leaves) disks_.of(*keeper_).mark.reset();
  see_finish_();
  end(outcome);
}

void CoordinatorProcess::on(const coordinator::RunAttempt& order) {
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
  std::optional<Version> recorded;
  for (const AttemptInJournal& one : folder_.attempts) recorded = std::max(recorded, one.newest);
  number_ = std::ssize(folder_.attempts) + 1;
  attempt_name_ =
      disks_.own() ? fmt::format("run {} of host {}", number_, host()) : fmt::format("run {}", number_);
  // Servers may still have versions of the attempt that was cut short, also if a later one committed nothing that the
  // journal has.
  const AttemptInJournal* const cut_short = folder_.cut_short();
  const std::string last = folder_.attempts.empty() ? "" : folder_.attempts.back().name;
  watch_.goes_on_from(attempt(), cut_short != nullptr ? cut_short->name : last, newest, recorded);
  const Version from = newest == nullptr ? Version(0) : newest->state.version;
  ordered_ = from;
  std::optional<coordinator::CutShort> before;
  if (cut_short != nullptr) before = coordinator::CutShort{cut_short->name, *cut_short->newest};
  coordinator::AttemptOptions options;
  options.job = config::coordinator_settings(job_);
  options.job_toml = job_toml_;
  options.again = order.again;
  options.hosts_start = std::exchange(start_.hosts_start, false);
  options.first = !begun_;
  options.host = HostRank(host());
  options.given_up = order.given_up;
  options.only_look_without = order.only_look_without;
  options.cut_short = coordinator::cut_short_after(std::move(before), from);
  options.state_text = store::state_text();
  options.new_key = [] { return std::string("a key"); };
  if (newest != nullptr)
    options.restart = coordinator::Restart{newest->state, newest->elapsed, newest_folder};
  keeper_.reset();
  if (const auto next = coordinator::keeper_of(job_.ranks, HostRank(host())); next && disks_.own())
    keeper_ = next->value();
  kept_ = unkept_ = false;
  if (disks_.own()) options.folder_on = HostRank(host());
  awaits_copy_ = options.awaits_copy = keeper_ && newest != nullptr && break_ != Break::kStartBeforeKept;
  folder_.attempts.push_back({number_, attempt(), job_.without, from});
  options.attempt = attempt();
  if (!std::exchange(begun_, true)) {
    folder_.leader = host();
    see_leading_();
  }
  world_.trace("attempt {} begins from version {}{}{}", number_, from,
               options.cut_short ? fmt::format("; {} was cut short at {}", options.cut_short->attempt,
                                               options.cut_short->newest)
                                 : "",
               order.only_look_without ? "; it only looks for what servers have" : "");
  recorded_.reset();
  open_checkpoint_.clear();
  witnesses_.reset();
  wake_at_.reset();
  trained_ = ended_attempt_ = false;
  phase_ = coordinator::Phase::kStarting;
  attempt_ = std::make_unique<coordinator::Attempt>(std::move(options), now());
  tick_later();
  keep();
  after(kKeeperComes, [this, number = number_] {
    if (number_ == number && !kept_) restart_kept(false);
  });
}

void CoordinatorProcess::end_attempt() {
  const auto attempt = std::move(attempt_);
  const absl::Status status = attempt->result();
  if (const std::string why(status.message()); why.ends_with(coordinator::kReadyUnsaid)) world_.broken(why);
  world_.trace("attempt {} is over: {}", number_, status.ok() ? "done" : std::string(status.message()));
  abandon_all(false);
  coordinator::AttemptEnded ended{.status = status,
                                  .can_go_on = attempt->can_go_on(),
                                  .trained = attempt->started(),
                                  .seen = attempt->seen(),
                                  .copies = job_.copies,
                                  .newest = folder_.newest_version(),
                                  .lost_hosts = attempt->lost_hosts(),
                                  .wrong_workers = attempt->wrong_workers()};
  const absl::Status kept = flush_records();
  // The keeper hears of it with the next attempt.
  if (ended.can_go_on && ended.lost_for_good()) folder_.attempts.back().says_what_was_lost = true;
  ended.recorded(kept);
  if (folder_.mark != mark_)
    ended.leads = absl::FailedPreconditionError("another host leads this run by now");
  carry_out(attempts_->ended(ended));
}

std::string CoordinatorProcess::attempt() const { return attempt_name_; }

std::optional<supervisor::Answered> CoordinatorProcess::status(int place) const {
  if (!reached_from(place) || !attempt_) return std::nullopt;
  return supervisor::Answered{"run", number_, attempt_->started(), attempt_->missing()};
}

// ---- Events ----

void CoordinatorProcess::tick_later() {
  after(kTick, [this, number = number_] {
    if (attempt_ && number_ == number) tick();
  });
}

void CoordinatorProcess::tick() {
  const std::int64_t number = number_;
  const auto goes_on = [&] { return alive() && attempt_ && number_ == number; };
  take(coordinator::TimePassed{});
  // The clock may have leapt past the time.
  if (goes_on() && wake_at_ && now() >= *wake_at_) {
    wake_at_.reset();
    take(coordinator::WokeUp{});
  }
  if (!goes_on()) return;
  keep();
  if (const absl::Status kept = flush_records(); !kept.ok()) take(coordinator::RecordingFailed{kept});
  if (goes_on()) tick_later();
}

absl::Status CoordinatorProcess::flush_records() {
  if (!recorded_) return absl::OkStatus();
  if (folder_.full) return absl::ResourceExhaustedError("the journal cannot be written: the disk is full");
  folder_.attempts.back().newest = recorded_;
  keep();
  if (disks_.own() && !kept_) watch_.may_lose();  // some commits are on this disk alone
  return absl::OkStatus();
}

// Copies the journal to the keeper's disk if there is a keeper, like RunKeeping and RunKeeper.
void CoordinatorProcess::keep() {
  const bool keeps = keeper_ && keeps_(*keeper_);
  if (!keeps) {
    if (std::exchange(kept_, false)) world_.trace("nobody keeps a copy of the run any more");
    folder_.next_leader.reset();
    return;
  }
  RunFolder& copy = disks_.of(*keeper_);
  if (break_ != Break::kStaleCopy || !kept_) copy.attempts = folder_.attempts;
  copy.leader = host();
  copy.next_leader = folder_.next_leader = keeper_;
  if (!copy.mark) copy.mark = ++copy.marks;
  if (std::exchange(kept_, true)) return;
  world_.trace("host {} keeps a copy of the run", *keeper_);
  for (const auto& [name, one] : folder_.checkpoints) {
    if (&one == folder_.newest()) fetch_checkpoint(name, [this] { restart_kept(true); });
  }
}

void CoordinatorProcess::restart_kept(bool kept) {
  if (!std::exchange(awaits_copy_, false)) return;
  unkept_ = unkept_ || !kept;
  if (unkept_) watch_.may_lose();
  take(coordinator::RestartKept{});
}

// Copies a checkpoint to the keeper's disk after a while; then the copy of the journal is synced too.
void CoordinatorProcess::fetch_checkpoint(const std::string& name, const std::function<void()>& then) {
  const bool has = disks_.of(*keeper_).checkpoints.contains(name);
  after(has ? Milliseconds(1) : world_.between(1, 1500), [this, name, then, number = number_] {
    if (number_ != number) return;
    const auto found = folder_.checkpoints.find(name);
    if (!kept_ || !keeps_(*keeper_) || found == folder_.checkpoints.end()) {
      unkept_ = true;
      watch_.may_lose();
      return then();
    }
    RunFolder& copy = disks_.of(*keeper_);
    copy.checkpoints = {{name, found->second}};
    copy.sync_journal();
    unkept_ = false;
    world_.trace("host {} has a copy of the checkpoint of version {}", *keeper_, found->second.state.version);
    then();
  });
}

void CoordinatorProcess::heard(coordinator::WorkerPeer peer, wire::WorkerMessage message) {
  take(coordinator::WorkerSaid{peer, wire::from_wire(message), "somewhere"});
}

void CoordinatorProcess::heard(coordinator::ServerPeer peer, wire::ServerMessage message) {
  if (break_ == Break::kLateReply) {
    if (message.has_prepared() || message.has_written()) late_ = {number_, message};
    if (message.has_started() && late_ && late_->first < number_)
      after(Milliseconds(1), [this, peer, late = std::exchange(late_, std::nullopt)->second] {
        take(coordinator::ServerSaid{peer, wire::from_wire(late), "somewhere"});
      });
  }
  take(coordinator::ServerSaid{peer, wire::from_wire(message), "somewhere"});
}

void CoordinatorProcess::heard(coordinator::EvaluatorPeer peer, wire::EvaluatorMessage message) {
  take(coordinator::EvaluatorSaid{peer, wire::from_wire(message), "somewhere"});
}

void CoordinatorProcess::closed(coordinator::WorkerPeer peer) {
  workers_.erase(peer);
  if (break_ != Break::kNobodyMissed) return take(coordinator::WorkerGone{peer});
  // A broken coordinator does not notice the silence of this worker either.
  const auto still_beats = std::make_shared<std::function<void()>>();
  *still_beats = [this, peer, number = number_, still_beats] {
    if (number_ != number) return;
    take(coordinator::WorkerSaid{peer, coordinator::Heartbeat{}, "nowhere"});
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
  carry_out(attempt_->take({now(), std::move(what)}));
  if (ended_attempt_ && alive() && attempt_) end_attempt();
}

void CoordinatorProcess::note_phase() {
  const coordinator::Phase phase = attempt_->phase();
  if (phase == phase_) return;
  world_.trace("attempt {}: {} → {}", number_, coordinator::name_of(phase_), coordinator::name_of(phase));
  ++transitions_[{phase_, phase}];
  phase_ = phase;
}

// ---- Actions ----

void CoordinatorProcess::carry_out(std::vector<coordinator::Action> actions) {
  note_phase();
  for (coordinator::Action& action : actions) {
    if (dies()) return;
    Answer answer = std::visit([this](auto& one) { return on(one); }, action);
    if (!alive()) return;
    if (!answer) continue;
    const bool recording_failed = std::holds_alternative<coordinator::RecordingFailed>(*answer);
    carry_out(attempt_->take({now(), *std::move(answer)}));
    if (!alive() || recording_failed) return;
  }
}

bool CoordinatorProcess::dies() {
  if (!actions_left_ || (*actions_left_)-- > 0) return false;
  last_();
  kill();
  return true;
}

template <class K>
void CoordinatorProcess::send(typename K::Peer to, typename K::Order order, bool last) {
  const auto found = streams<K>().find(to);
  if (found == streams<K>().end()) return;
  if (last && break_ == Break::kForgetGoodbye) return found->second->hang_up();
  found->second->order(std::move(order), last);
}

void CoordinatorProcess::before_sending(const wire::ServerOrder& order) {
  if (order.has_expect()) watch_.expects(attempt(), order.expect().commit());
  if (!order.has_apply() || Version(order.apply().version()) <= ordered_) return;
  ordered_ = Version(order.apply().version());
  watch_.commits(attempt(), order.apply());
  if (job_.copies > 1 && break_ != Break::kIgnoreJournal && folder_.attempts.back().newest < ordered_)
    world_.broken(fmt::format("version {} is ordered, and not in the journal", ordered_));
}

// If no lock says who leads, a part of the hosts may go on only with at least half of the hosts that trained
// last.
void CoordinatorProcess::enough_hosts() {
  std::size_t gone = 0;
  for (const AttemptInJournal& one : folder_.attempts) {
    if (one.trained) gone = one.without.size();
  }
  const std::size_t all = scenario_.job.ranks.size(), had = all - gone, left = all - job_.without.size();
  if (2 * left < had) world_.broken(fmt::format("{} of {} hosts train on", left, had));
  if (left < had && 2 * left == had) watch_.splits();
}

void CoordinatorProcess::begins_to_train() {
  ever_trained_ = trained_ = true;
  if (disks_.own()) enough_hosts();
  folder_.attempts.back().trained = true;
  watch_.trains_from(std::min(folder_.newest_version().value_or(ordered_), ordered_),
                     scenario_.job.copies > 1);
  if (unkept_) watch_.may_lose();
  if (see_training_) see_training_();
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::SendWorker& one) {
  const wire::WorkerOrder order = wire::to_wire(one.order);
  if (order.has_release() && !trained_) begins_to_train();
  world_.trace("coordinator → worker {}: {}", one.to, Shown{order});
  send<WorkerKind>(one.to, order, one.last);
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::SendServer& one) {
  send_server(one.to, wire::to_wire(one.order), one.last);
  return std::nullopt;
}

// The process may die between two of them.
CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::SendServers& all) {
  const wire::ServerOrder order = wire::to_wire(all.order);
  for (const coordinator::ServerPeer to : all.to) {
    if (to != all.to.front() && dies()) break;
    send_server(to, order, false);
  }
  return std::nullopt;
}

void CoordinatorProcess::send_server(coordinator::ServerPeer to, const wire::ServerOrder& order, bool last) {
  before_sending(order);
  if (break_ == Break::kForgetApply && order.has_apply() && world_.chance(0.1)) return;
  if (!order.has_start()) world_.trace("coordinator → server {}: {}", to, Shown{order});
  if (break_ == Break::kApplyTwice && order.has_apply() && world_.chance(0.1))
    send<ServerKind>(to, order, last);
  send<ServerKind>(to, order, last);
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::SendEvaluator& one) {
  const wire::EvaluatorOrder order = wire::to_wire(one.order);
  world_.trace("coordinator → evaluator {}: {}", one.to, Shown{order});
  send<EvaluatorKind>(one.to, order, one.last);
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::HangUp& one) {
  if (const auto found = evaluators_.find(one.peer); found != evaluators_.end()) found->second->hang_up();
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::Begin& begin) {
  witnesses_.emplace(
      control::Observer(begin.bounds, begin.config.dataset_size, begin.config.total_samples, begin.state),
      std::vector<control::RunListener*>{});
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::Record& record) {
  if (const auto complaint = witnesses_->record(record.fact, record.orders)) world_.broken(*complaint);
  for (const control::Order& order : record.orders) {
    if (const auto* commit = std::get_if<control::CommitRecord>(&order)) recorded_ = commit->version;
    if (const auto* release = std::get_if<control::Release>(&order))
      watch_.leases(attempt(), release->replica, release->clock, release->lease);
  }
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::FlushRecords&) {
  if (break_ == Break::kIgnoreJournal) return std::nullopt;
  const absl::Status kept = flush_records();
  if (kept.ok()) return std::nullopt;
  return coordinator::RecordingFailed{kept};
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::WakeUp& wake) {
  wake_at_ = wake.at;
  after(std::max(Milliseconds(0), Milliseconds(wake.at - now())), [this, at = wake.at] {
    if (wake_at_ != at) return;
    wake_at_.reset();
    take(coordinator::WokeUp{});
  });
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::OpenCheckpoint& open) {
  if (folder_.full) return coordinator::CheckpointOpened{full_disk()};
  open_checkpoint_ = fmt::format("version {}, {}", open.version, ++folder_.opened);
  folder_.checkpoints[open_checkpoint_] = {};
  return coordinator::CheckpointOpened{open_checkpoint_};
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::CountCheckpoint& count) {
  absl::Status kept = flush_records();
  if (kept.ok() && folder_.full) kept = full_disk();
  if (!kept.ok()) return coordinator::CheckpointCounted{kept};
  folder_.go_on_from(count.state.version);
  if (break_ != Break::kForgetJournalSync) folder_.sync_journal();
  SavedCheckpoint& saved = folder_.checkpoints[open_checkpoint_];
  saved.state = count.state;
  if (break_ == Break::kForgetLeases) saved.state.ledger.open.clear();
  saved.elapsed = count.elapsed;
  saved.parts = static_cast<int>(job_.servers);
  saved.counts = true;
  world_.trace("the checkpoint of version {} counts", count.state.version);
  watch_.counts(attempt(), saved);
  if (attempt_->phase() == coordinator::Phase::kSavingCopies) see_saved_copies_();
  keep();
  if (disks_.own() && !kept_) watch_.may_lose();
  if (!kept_) return coordinator::CheckpointCounted{kept};
  fetch_checkpoint(open_checkpoint_, [] {});
  return coordinator::CheckpointCounted{kept};
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::DropCheckpoint&) {
  folder_.checkpoints.erase(open_checkpoint_);
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const control::SearchPlan& search) {
  after(world_.between(1, 300), [this, search, number = number_] {
    if (number_ == number) take(coordinator::PlanFound{control::searched(search)});
  });
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::Tell& tell) {
  world_.trace("coordinator says: {}", tell.line);
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::NothingLost&) {
  for (AttemptInJournal& one : folder_.attempts) one.says_what_was_lost |= one.number < number_;
  return std::nullopt;
}

CoordinatorProcess::Answer CoordinatorProcess::on(const coordinator::End&) {
  ended_attempt_ = true;
  return std::nullopt;
}

void CoordinatorProcess::abandon_all(bool dead) {
  for (const auto& [peer, stream] : std::exchange(workers_, {})) stream->abandon(dead);
  for (const auto& [peer, stream] : std::exchange(servers_, {})) stream->abandon(dead);
  for (const auto& [peer, stream] : std::exchange(evaluators_, {})) stream->abandon(dead);
}

}  // namespace paceline::cluster_sim

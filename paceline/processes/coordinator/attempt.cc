#include "paceline/processes/coordinator/attempt.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/counted.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/control/divergence.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/coordinator/group_reduction.h"
#include "paceline/processes/coordinator/reader_slots.h"
#include "paceline/processes/coordinator/stage_links.h"
#include "paceline/processes/coordinator/worker_orders.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::coordinator {

namespace {

// A server that lives comes again within a second.
constexpr std::chrono::seconds kVotePatience{2};

// Whether a process can have measured this time.
bool is_time(std::int64_t ns) { return ns >= 0 && Duration(ns) < std::chrono::days(30); }

std::optional<Version> version_of(const std::optional<Restart>& restart) {
  if (!restart) return std::nullopt;
  return restart->state.version;
}

// Weights may go to members as they are made if the commit releases them. One that a bound holds back waits for
// a later version.
void say_who_waits(wire::Apply& apply, const TimedController::ReleasedNext& released) {
  for (wire::Apply::Member& member : *apply.mutable_members())
    member.set_waits(released.contains(ReplicaId(member.replica())));
}

}  // namespace

Attempt::Attempt(AttemptOptions options, SteadyTime start)
    : options_(std::move(options)),
      at_(start),
      contributions_(options_.job.reject_outliers, options_.given_up, out_),
      workers_(options_.job),
      replicas_(options_.job.parallel.plan, options_.new_key),
      servers_(options_.job, out_, options_.new_key, options_.folder_on),
      first_weights_(workers_, servers_, options_.job),
      evaluator_host_(options_.job.hosts > 1 ? servers_.place(options_.host) : HostPlace(0)),
      evaluator_(out_),
      evaluations_(
          servers_.size(), [this](const auto& order) { servers_.tell(order); },
          [this](Version version) { evaluator_.evaluate(version); }),
      checkpoints_(
          servers_.size(), [this](const auto& order) { servers_.tell(order); }, out_,
          version_of(options_.restart)),
      awaits_copy_(options_.awaits_copy),
      idle_(options_.job.host_patience_s),
      missing_(options_.job.host_patience_s),
      hearing_(start) {
  if (options_.job.copies == 1) return;
  replication_.emplace(options_.job, version_of(options_.restart).value_or(Version(0)), servers_, out_);
  if (!options_.cut_short) return;
  vote_.emplace(config::shards_kept(static_cast<int>(servers_.size()), static_cast<int>(options_.job.copies)),
                options_.cut_short->attempt, options_.cut_short->newest);
}

// ---- Servers ----

void Attempt::on(const ServerSaid& said) {
  if (said.message.has_hello()) return on_hello(said.peer, said.message.hello());
  const std::optional<ServerId> server = servers_.server_of(said.peer);
  if (!server) return;
  servers_.hear(*server, at_);
  if (const absl::Status status = on_message(*server, said.message); !status.ok()) fail(status);
}

void Attempt::on_hello(ServerPeer peer, const wire::ServerHello& hello) {
  if (disconnecting()) return out_.send_disconnect(peer, disconnect_order());
  if (saving_copies()) return;
  // A launcher starts a server only once the one before has ended, and that end may come to be known later.
  if (const auto before = servers_.in_place_of(hello); before && is_kept_here(*before, hello.kept())) {
    miss_server(*before, fmt::format("server {} died", *before));
    if (!missed_servers_.contains(*before)) return;
  }
  if (const auto refusal = servers_.take_place(peer, hello, at_))
    return out_.refuse(peer, refusal->why, refusal->reason);
  const ServerId server = *servers_.server_of(peer);
  if (missed_servers_.contains(server)) return take_up_server(server, hello.kept());
  on_ballot(server, hello.ballot());
  start_servers_if_ready();
}

// A run needs a right server: an error is the server's end.
absl::Status Attempt::on_message(ServerId server, const wire::ServerMessage& message) {
  PACELINE_RETURN_IF_ERROR(note_updates(server, message));
  switch (message.what_case()) {
    case wire::ServerMessage::kStarted:
      return on_started(server, message.started());
    case wire::ServerMessage::kMapped:
      return on_mapped(server, message.mapped());
    case wire::ServerMessage::kApplied:
      return on_applied(server, Version(message.applied().version()));
    case wire::ServerMessage::kPrepared:
      if (!replication_) return absl::OkStatus();
      return replication_->prepared(server, Version(message.prepared().version()));
    case wire::ServerMessage::kCopyWritten:
      if (saving_copies())
        go_on_from_emergency_checkpoint(replication_->written(server, message.copy_written()));
      return absl::OkStatus();
    case wire::ServerMessage::kKept:
      evaluations_.kept(server, Version(message.kept().version()));
      return absl::OkStatus();
    case wire::ServerMessage::kWritten:
      result_.Update(checkpoints_.written(server, message.written(), at_));
      finish_if_done();
      return absl::OkStatus();
    case wire::ServerMessage::kHeartbeat: {
      const HostRank rank = servers_.rank(server);
      const std::string name = fmt::format("server{}", rank);
      note_process(name, message.heartbeat());
      return note_links(name, servers_.place(rank), message.heartbeat());
    }
    case wire::ServerMessage::kFailed:
      on_failed(server, message.failed());
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status Attempt::note_updates(ServerId server, const wire::ServerMessage& message) {
  for (const wire::UpdateTime& update : message.updates()) {
    const bool can_be = controller_ != nullptr && update.version() >= 1 &&
                        Version(update.version()) <= controller_->version() && is_time(update.took_ns()) &&
                        is_time(update.age_ns()) && update.bytes() >= 0 && update.threads() >= 0 &&
                        update.members() >= 0;
    if (!can_be) {
      return absl::InvalidArgumentError(fmt::format("server {} says that version {} took {} ns, {} ns ago",
                                                    server, update.version(), update.took_ns(),
                                                    update.age_ns()));
    }
    servers_.made(server, Version(update.version()));
    out_.put(control::SideWork{.at = time(at_) - Duration(update.age_ns()),
                               .kind = control::SideWork::Kind::kUpdate,
                               .version = Version(update.version()),
                               .took = Duration(update.took_ns()),
                               .server = servers_.rank(server).value(),
                               .bytes = update.bytes(),
                               .threads = update.threads(),
                               .members = update.members()});
  }
  return absl::OkStatus();
}

// Impossible numbers are ignored: they only feed the report.
void Attempt::note_process(const std::string& name, const wire::Heartbeat& beat) {
  if (beat.resident_bytes() <= 0) return;
  store::ProcessReport report{time(at_), name, beat.resident_bytes()};
  for (const wire::SentBytes& sent : beat.sent()) {
    const ServerId to(sent.host());
    if (!servers_.has(to) || report.sent.size() >= 2 * servers_.size()) continue;
    const std::string peer = fmt::format("server{}", servers_.rank(to));
    report.sent.push_back({peer, "gradients", std::max<std::int64_t>(0, sent.gradients())});
    report.sent.push_back({peer, "weights", std::max<std::int64_t>(0, sent.weights())});
  }
  for (const wire::SentToStage& sent : beat.sent_to_stages()) {
    const auto& devices = options_.job.devices;
    const bool known = (sent.kind() == kActivations || sent.kind() == kGradients) &&
                       std::any_of(devices.begin(), devices.end(),
                                   [&](const auto& device) { return device.name == sent.worker(); });
    if (!known || report.sent.size() >= 2 * devices.size()) continue;
    report.sent.push_back({sent.worker(), sent.kind(), std::max<std::int64_t>(0, sent.bytes())});
  }
  out_.put(std::move(report));
}

absl::Status Attempt::note_links(const std::string& name, HostPlace host, const wire::Heartbeat& beat) {
  if (options_.job.hosts == 1 || !plans_anew()) return absl::OkStatus();
  for (const control::LinkMeasured& fact :
       link_watch_.heard(name, host, beat, [this](const wire::Received& one) { return sender_of(one); })) {
    if (started()) PACELINE_RETURN_IF_ERROR(tell_controller(fact));
  }
  return absl::OkStatus();
}

std::optional<HostPlace> Attempt::sender_of(const wire::Received& received) const {
  if (received.worker().empty()) {
    const ServerId server(received.host());
    return servers_.has(server) ? std::optional(servers_.place(servers_.rank(server))) : std::nullopt;
  }
  for (const config::DeviceConfig& device : options_.job.devices) {
    if (device.name == received.worker()) return HostPlace(device.host.value_or(0));
  }
  return std::nullopt;
}

absl::Status Attempt::on_applied(ServerId server, Version version) {
  const Version ordered = controller_ == nullptr ? Version(0) : controller_->version();
  PACELINE_ASSIGN_OR_RETURN(const Version by_all, servers_.applied(server, version, ordered));
  while (completed_ < by_all) {
    completed_ = completed_.next();
    PACELINE_RETURN_IF_ERROR(tell_controller(control::CommitComplete{completed_}));
  }
  return absl::OkStatus();
}

absl::Status Attempt::diverged(const wire::ServerFailed& message) {
  std::vector<std::string> names;
  for (const std::int32_t replica : message.not_finite()) {
    const LiveReplica* live = replicas_.find(ReplicaId(replica));
    names.push_back(live != nullptr && !live->workers.empty() && live->workers.front() != nullptr
                        ? live->workers.front()->name
                        : fmt::format("replica {}", replica));
  }
  // If all gradients are not finite, no single worker is at fault.
  if (names.size() == replicas_.all().size()) names.clear();
  return control::diverged(Version(message.diverged()), contributions_.last_loss(),
                           fmt::to_string(fmt::join(names, ", ")));
}

void Attempt::on_failed(ServerId server, const wire::ServerFailed& message) {
  if (disconnecting()) return;
  const std::string why = fmt::format("server {}: {}", server, message.error());
  if (message.host_lost()) return lose_server(std::nullopt, why);
  if (message.diverged() > 0) return fail(diverged(message));
  if (message.has_not_here()) return lose_gradient(server, message);
  fail(absl::InternalError(why));
}

// The commit is ordered, so it cannot be made without this gradient. Only a faulty worker causes this.
void Attempt::lose_gradient(ServerId server, const wire::ServerFailed& message) {
  std::string why = fmt::format("server {}: {}", server, message.error());
  if (const LiveReplica* replica = replicas_.find(ReplicaId(message.not_here()))) {
    const Worker& worker = *replica->workers.front();
    why = fmt::format("{} did not leave the gradient that it said was ready", worker.name);
    contributions_.give_up(worker.name, why);
    out_.refuse(worker.peer, why);
  }
  servers_.send_back(server, why);
  lose_server(server, why);
}

void Attempt::on(const ServerGone& gone) {
  const std::optional<ServerId> server = servers_.leave(gone.peer);
  if (server && !disconnecting()) miss_server(*server, fmt::format("server {} died", *server));
  finish_if_done();
}

// The attempt goes on without the server for a while, if memory that outlives the server has its shard. The server died,
// or was told to come again.
void Attempt::miss_server(ServerId server, const std::string& why) {
  const bool trains = training() || phase_ == Phase::kFinishing;
  if (!trains || !servers_.keeps(server)) return lose_server(server, why);
  servers_.miss(server);
  missed_servers_.miss(server, at_, why);
  fail_checkpoint_of_missed();
}

// Whether the memory has the server's shard as of this attempt.
bool Attempt::is_kept_here(ServerId server, const wire::KeptShard& kept) const {
  return kept.attempt() == options_.attempt && kept.shard() == server.value() &&
         kept.shard_count() == static_cast<std::int32_t>(servers_.size());
}

void Attempt::take_up_server(ServerId server, const wire::KeptShard& kept) {
  const std::string why = missed_servers_.why(server);
  const Version version(kept.version());
  const bool goes_on = missed_servers_.came(server, version) && is_kept_here(server, kept);
  if (!goes_on || !servers_.take_up(server, version)) return lose_server(server, why);
  missed_servers_.takes_up(server, version);
  out_.tell_and_remember(fmt::format("{}; it is back with version {}, and nothing is lost", why, version));
}

void Attempt::give_up_missed_servers() {
  if (const auto server = missed_servers_.overdue(at_)) lose_server(*server, missed_servers_.why(*server));
}

void Attempt::fail_checkpoint_of_missed() {
  for (const auto& [server, why] : missed_servers_.reasons())
    result_.Update(checkpoints_.lost(server, why, at_));
}

void Attempt::on_ballot(ServerId server, const wire::Ballot& ballot) {
  if (!vote_) return;
  const auto came = vote_->came(server, ballot);
  const auto found = came.ok() ? vote_->found() : came;
  if (!found.ok()) {
    vote_found_since_.reset();
    return out_.tell(fmt::format("what server {} says that it still has makes no sense: {}", server,
                                 message_of(found.status())));
  }
  if (!*found) {
    vote_found_since_.reset();
  } else if (!vote_found_since_) {
    vote_found_since_ = at_;
  }
  take_up_vote();
}

// The servers that came have every shard. The others are worth waiting for: if one of these servers dies
// while it writes, the copy of another one may be of an older version, and then no version is complete any
// more.
void Attempt::take_up_vote() {
  if (!vote_found_since_ || phase_ != Phase::kStarting) return;
  if (!all_awaited_servers_here() && at_ - *vote_found_since_ < kVotePatience) return;
  auto found = vote_->found();
  PACELINE_CHECK(found.ok() && *found, "the vote found a version, and has none");
  const Version version = (*found)->snapshot.state.version;
  const bool is_newer = version > version_of(options_.restart).value_or(Version(0));
  if (!is_newer && awaits_copy_) return;
  vote_.reset();
  vote_found_since_.reset();
  if (!is_newer) return out_.put(NothingLost{});
  lost_why_ = fmt::format("the servers still had version {}", version);
  enter(Phase::kSavingCopies);
  replication_->take_up(**std::move(found));
}

void Attempt::on(const RestartKept&) {
  awaits_copy_ = false;
  if (phase_ != Phase::kStarting) return;
  take_up_vote();
  if (phase_ == Phase::kStarting) start_servers_if_ready();
}

// The card whose memory shards should be in, empty for the host's; nothing while a device may yet come that has one.
std::optional<std::string> Attempt::card_for_shards() {
  if (options_.job.memory != config::ShardMemory::kGpu) return job_facts_->card(options_.job);
  std::size_t attached = 0;
  for (const auto& [peer, worker] : workers_.all()) {
    if (worker.attached && !worker.attached->card().empty()) return worker.attached->card();
    attached += worker.attached ? 1 : 0;
  }
  if (attached == options_.job.devices.size())
    fail(
        absl::FailedPreconditionError("cluster.memory is \"gpu\", and no device of the job computes on a GPU "
                                      "whose memory processes can share; write "
                                      "\"auto\" or \"host\""));
  return std::nullopt;
}

void Attempt::start_servers_if_ready() {
  if (saving_copies() || options_.only_look_without || awaits_copy_) return;
  if (!servers_.all_here() || !job_facts_) return;
  if (servers_.told_to_start()) return first_weights_.give();
  const auto card = card_for_shards();
  if (!card) return;
  std::vector<std::string> weights;
  if (!options_.restart) weights = first_weights_.known();
  if (!options_.restart && weights.size() < servers_.size()) return;
  if (vote_) {
    out_.tell_and_remember(fmt::format(
        "{}; going on from {}", kNoWholeVersion,
        options_.restart ? fmt::format("the checkpoint of version {}", options_.restart->state.version)
                         : "the start"));
    vote_.reset();
    vote_found_since_.reset();
  }
  wire::ServerStart start;
  start.set_job_toml(options_.job_toml);
  // A worker that died and its successor may both hold a version for a moment.
  start.set_readers(static_cast<std::int32_t>(2 * options_.job.devices.size() + 1));
  start.set_announce(controller_->hears_of_completion());
  start.set_mark_file(options_.mark_file);
  start.set_mark_text(options_.mark_text);
  if (options_.restart) {
    completed_ = options_.restart->state.version;
    start.set_version(options_.restart->state.version.value());
    start.set_checkpoint_dir(options_.restart->checkpoint_dir);
    start.mutable_checkpoint_files()->Add(options_.restart->files.begin(), options_.restart->files.end());
  }
  start.set_evaluator_host(evaluator_host_.value());
  start.set_copies(static_cast<std::int32_t>(options_.job.copies));
  start.set_attempt(options_.attempt);
  start.set_card(*card);
  start.set_first_passed_on(!options_.restart && first_weights_.passed_on());
  servers_.start(start, weights);
  if (options_.restart && replication_) measure_restart();
}

// The commits up to there are not done again, and their evaluation may have been under way.
void Attempt::measure_restart() {
  control::CommitRecord record;
  record.version = options_.restart->state.version;
  record.committed_before = options_.restart->state.ledger.committed();
  record.keep_for_evaluation = true;
  evaluations_.committed(record, time(at_), controller_->finished());
}

absl::Status Attempt::on_no_weights(ServerId server, const std::string& error) {
  if (options_.restart || !servers_.told_to_start() || !first_weights_.refused(server))
    return absl::FailedPreconditionError(fmt::format("server {} started out of turn", server));
  if (const Worker* worker = first_weights_.owner(server))
    send_away(worker->peer, fmt::format("server {} cannot read its weights: {}", server,
                                        store::printable(error, store::kLongestError)));
  first_weights_.give();
  return absl::OkStatus();
}

absl::Status Attempt::on_started(ServerId server, const wire::ServerStarted& started) {
  if (missed_servers_.contains(server) && !started.error().empty()) {
    lose_server(server, fmt::format("{}, and could not go on: {}", missed_servers_.why(server),
                                    store::printable(started.error(), store::kLongestError)));
    return absl::OkStatus();
  }
  if (!started.error().empty()) return on_no_weights(server, started.error());
  PACELINE_RETURN_IF_ERROR(servers_.started(server, started));
  const std::optional<Version> taken_up = missed_servers_.started(server);
  const bool is_back = taken_up.has_value();
  if (is_back) {
    // The server may have died before it said that it had made that version.
    if (controller_->hears_of_completion() && *taken_up > servers_.applied(server))
      PACELINE_RETURN_IF_ERROR(on_applied(server, *taken_up));
  }
  if (!started.card().empty() && !is_back)
    out_.tell_and_remember(fmt::format("weights and optimizer state are in the memory of {}",
                                       store::printable(started.card(), store::kLongestError)));
  if (!started.why_host().empty())
    out_.tell_and_remember(
        fmt::format("weights and optimizer state are in the host's memory and not in the GPU's: {}",
                    store::printable(started.why_host(), store::kLongestError)));
  for (auto& [peer, worker] : workers_.all()) send_boards(worker);
  show_evaluator_boards();
  return absl::OkStatus();
}

// ---- The evaluator ----

void Attempt::on(const EvaluatorSaid& said) {
  if (saving_copies()) return;
  if (evaluator_.is(said.peer)) {
    evaluator_.hear(at_);
    if (said.message.has_heartbeat()) note_process("evaluator", said.message.heartbeat());
  }
  if (said.message.has_hello() && disconnecting()) {
    out_.send_disconnect(said.peer, disconnect_order());
  } else if (said.message.has_hello() && evaluator_.take(said.peer, options_.job_toml, at_)) {
    show_evaluator_boards();
  } else if (said.message.has_evaluated() && evaluator_.is(said.peer)) {
    on_evaluated(said.message.evaluated());
  } else if (!said.message.has_heartbeat()) {
    out_.put(HangUp{said.peer});
  }
}

void Attempt::show_evaluator_boards() {
  if (!servers_.all_started() || !evaluator_.wants_boards()) return;
  evaluator_.show(servers_.boards(evaluator_host_, kEvaluatorSlot));
  evaluations_.evaluator_is_ready();
}

void Attempt::on_evaluated(const wire::Evaluated& message) {
  const auto measured = evaluations_.evaluated(message);
  if (!measured) return;
  if (is_time(message.took_ns())) {
    out_.put(control::SideWork{.at = time(at_),
                               .kind = control::SideWork::Kind::kEvaluation,
                               .version = measured->result.version,
                               .took = Duration(message.took_ns())});
  }
  out_.put(measured->result);
  // A person's evaluation out of turn changes nothing in the training.
  if (!measured->out_of_turn && options_.job.stop_at_target &&
      control::meets(*options_.job.target, measured->result))
    stop("the target is reached", control::FinishCause::kTarget);
  finish_if_done();
}

absl::StatusOr<Version> Attempt::next_to_measure() const {
  if (!options_.job.evaluates)
    return absl::FailedPreconditionError("this job has no evaluator, so nothing can be measured");
  if (!training()) return absl::FailedPreconditionError("the run does not train now");
  return evaluations_.next_out_of_turn();
}

void Attempt::on(const EvaluationWanted&) {
  if (next_to_measure().ok()) evaluations_.request_out_of_turn();
}

void Attempt::on(const EvaluatorGone& gone) {
  if (evaluator_.is(gone.peer)) lose_evaluator();
}

void Attempt::lose_evaluator() {
  evaluator_.leave(at_);
  evaluations_.evaluator_is_gone();
  if (!disconnecting() && !saving_copies())
    out_.tell("the evaluator is lost; another one will measure what it did not");
  finish_if_done();
}

// ---- Orders ----

absl::Status Attempt::tell_controller(decltype(control::Fact::what) what) {
  PACELINE_RETURN_IF_ERROR(controller_->take(at_, std::move(what)));
  follow_plans();
  return absl::OkStatus();
}

void Attempt::carry_out(const control::Order& order, const TimedController::ReleasedNext& released) {
  if (phase_ == Phase::kStarting && started()) enter(Phase::kTraining);
  std::visit(Overloaded{
                 [&](const control::CommitRecord& record) { carry_out(record, released); },
                 [&](const auto& one) { carry_out(one); },
             },
             order);
}

void Attempt::carry_out(const control::CommitRecord& record, const TimedController::ReleasedNext& released) {
  if (replication_) replication_->ordered(controller_->take_states(), time(at_).time_since_epoch());
  wire::ServerOrder order;
  *order.mutable_apply() = wire::to_wire(record);
  if (options_.job.hosts > 1) say_who_waits(*order.mutable_apply(), released);
  for (wire::Apply::Member& member : *order.mutable_apply()->mutable_members())
    member.set_early(early_.committed(ReplicaId(member.replica()), Clock(member.clock())).value());
  if (replication_) {
    const CommitQuorum::Snapshot& snapshot = replication_->ordered(record.version);
    order.mutable_apply()->set_state(store::to_text(snapshot.state));
    order.mutable_apply()->set_elapsed_ns(snapshot.elapsed.count());
  }
  order.mutable_apply()->set_group(reduces_in_memory(options_.job) &&
                                   order_reduction(record, replicas_, out_));
  servers_.tell(order);
  evaluations_.committed(record, time(at_), controller_->finished());
  if (record.checkpoint) write_checkpoint(*record.checkpoint);
}

void Attempt::carry_out(const control::Release& release) {
  LiveReplica* replica = replicas_.find(release.replica);
  if (replica == nullptr) return;  // the replica left in this very moment, and the fact is on its way
  replica->lease = release.lease;
  for (const HostPlace host : hosts_of(*replica)) want(host, release.version);
  const wire::WorkerOrder order = release_order(release, time(at_));
  for (const Worker* worker : replica->workers) out_.send(worker->peer, order);
}

// Workers of this host need this version.
void Attempt::want(HostPlace host, Version version) {
  if (options_.job.hosts == 1) return;
  wire::ServerOrder order;
  order.mutable_want()->set_host(host.value());
  order.mutable_want()->set_version(version.value());
  servers_.tell(order);
}

// ---- What it says of itself ----

std::vector<std::string> Attempt::missing() const {
  std::vector<std::string> names;
  for (const HostRank host : missing_hosts()) names.push_back(fmt::format("server{}", host));
  for (const DevicePlace device : missing_devices()) names.push_back(device_name(device));
  return names;
}

std::vector<DevicePlace> Attempt::missing_devices() const {
  std::vector<DevicePlace> missing;
  for (const DevicePlace device : workers_.devices()) {
    if (!workers_.here(device)) missing.push_back(device);
  }
  return missing;
}

const std::string& Attempt::device_name(DevicePlace device) const {
  return options_.job.devices[static_cast<std::size_t>(device.value())].name;
}

std::string Attempt::waits_for() const {
  if (phase_ != Phase::kFinishing) return "";
  if (!evaluations_.empty()) return counted(static_cast<std::int64_t>(evaluations_.waiting()), "evaluation");
  return "the last checkpoint";
}

std::string Attempt::phase_in_words() const {
  if (const std::string what = waits_for(); !what.empty()) return "finishing: waiting for " + what;
  if (ending()) return "finishing";
  if (started()) return "training";
  if (awaits_copy_ && servers_.all_here()) return "starting: another host copies the checkpoint";
  std::string words =
      fmt::format("starting: {} of {} workers are here", workers_.size(), options_.job.devices.size());
  const std::vector<HostRank> missing = missing_hosts();
  if (options_.job.hosts > 1 && !missing.empty())
    words +=
        fmt::format("; host {} {} not", fmt::join(missing, ", host "), missing.size() == 1 ? "is" : "are");
  return words;
}

}  // namespace paceline::coordinator

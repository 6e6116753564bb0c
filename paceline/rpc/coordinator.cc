#include "paceline/rpc/coordinator.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/status_macros.h"
#include "paceline/config/server_parts.h"
#include "paceline/control/divergence.h"
#include "paceline/rpc/coordinator_words.h"
#include "paceline/rpc/goodbye.h"
#include "paceline/rpc/group_reduction.h"
#include "paceline/rpc/reader_slots.h"
#include "paceline/rpc/wire.h"
#include "paceline/rpc/worker_orders.h"
#include "paceline/store/controller_state_json.h"
#include "paceline/store/strict_json.h"

namespace paceline::rpc {

namespace {

std::optional<Version> version_of(const std::optional<Restart>& restart) {
  if (!restart) return std::nullopt;
  return restart->state.version;
}

}  // namespace

Coordinator::Coordinator(EventLoop& loop, CoordinatorOptions options)
    : loop_(loop),
      options_(std::move(options)),
      contributions_(options_.job.reject_outliers),
      workers_(options_.job),
      replicas_(options_.job.parallel.plan, options_.job.seal),
      servers_(options_.job),
      evaluator_host_(options_.job.hosts > 1 ? servers_.place(options_.host) : 0),
      evaluations_(
          servers_.size(), [this](const auto& order) { servers_.tell(order); },
          [this](Version version) { evaluate(version); }),
      checkpoints_(
          servers_.size(), [this](const auto& order) { servers_.tell(order); }, *options_.checkpoints,
          version_of(options_.restart)) {
  if (options_.job.copies == 1) return;
  replication_.emplace(options_.job, version_of(options_.restart).value_or(Version(0)), servers_,
                       *options_.checkpoints);
  if (!options_.cut_short) return;
  held_.emplace(config::shards_kept(static_cast<int>(servers_.size()), static_cast<int>(options_.job.copies)),
                options_.cut_short->attempt, options_.cut_short->newest);
}

// ---- Servers ----

void Coordinator::received(const ServerStream::Pointer& stream, const wire::ServerMessage& message) {
  if (can_go_on_) return;  // it comes again, to the next attempt
  if (message.has_hello()) return on_hello(stream, message.hello());
  const std::optional<std::size_t> shard = servers_.shard_of(stream);
  if (!shard) return;
  servers_.hear(*shard);
  if (const absl::Status status = on_message(*shard, message); !status.ok()) fail(status);
}

void Coordinator::on_hello(const ServerStream::Pointer& stream, const wire::ServerHello& hello) {
  if (goodbye_said_) return rpc::say_goodbye(*stream, last_word());
  if (rescuing()) return;
  if (const absl::Status taken = servers_.take_place(stream, hello); !taken.ok())
    return refuse(*stream, message_of(taken));
  take_up_what_is_held(*servers_.shard_of(stream), hello.held());
  start_servers_if_ready();
}

// Without a right server there is no run: an error is its end.
absl::Status Coordinator::on_message(std::size_t shard, const wire::ServerMessage& message) {
  switch (message.what_case()) {
    case wire::ServerMessage::kStarted:
      return on_started(shard, message.started());
    case wire::ServerMessage::kMapped:
      return on_mapped(shard, message.mapped());
    case wire::ServerMessage::kApplied:
      return on_applied(shard, Version(message.applied().version()));
    case wire::ServerMessage::kPrepared:
      if (!replication_) return absl::OkStatus();
      return replication_->prepared(shard, Version(message.prepared().version()));
    case wire::ServerMessage::kRescued:
      if (rescuing()) go_on_from_rescue(replication_->written(shard, message.rescued()));
      return absl::OkStatus();
    case wire::ServerMessage::kKept:
      evaluations_.kept(shard, Version(message.kept().version()));
      return absl::OkStatus();
    case wire::ServerMessage::kWritten:
      on_written(shard, message.written());
      return absl::OkStatus();
    case wire::ServerMessage::kFailed:
      on_failed(shard, message.failed());
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status Coordinator::on_applied(std::size_t shard, Version version) {
  const Version ordered = controller_ == nullptr ? Version(0) : controller_->version();
  PACELINE_ASSIGN_OR_RETURN(const Version by_all, servers_.applied(shard, version, ordered));
  while (completed_ < by_all) {
    completed_ = completed_.next();
    PACELINE_RETURN_IF_ERROR(controller_->take(control::CommitComplete{completed_}));
  }
  return absl::OkStatus();
}

absl::Status Coordinator::diverged(const wire::ServerFailed& message) {
  std::vector<std::string> names;
  for (const std::int32_t replica : message.not_finite()) {
    const LiveReplica* live = replicas_.find(ReplicaId(replica));
    names.push_back(live != nullptr && !live->stages.empty() && live->stages.front() != nullptr
                        ? live->stages.front()->name
                        : fmt::format("replica {}", replica));
  }
  // Where all are, it is nobody's fault.
  if (names.size() == replicas_.all().size()) names.clear();
  return control::diverged(Version(message.diverged()), last_loss_, fmt::to_string(fmt::join(names, ", ")));
}

void Coordinator::on_failed(std::size_t shard, const wire::ServerFailed& message) {
  if (goodbye_said_) return;
  const std::string why = fmt::format("server {}: {}", shard, message.error());
  if (message.host_lost()) return lose_server(std::nullopt, why);
  if (message.diverged() > 0) return fail(diverged(message));
  if (message.has_not_here()) return lose_gradient(shard, message);
  fail(absl::InternalError(why));
}

// The commit is ordered, so it cannot be made without it. Only a worker that is wrong comes to this.
void Coordinator::lose_gradient(std::size_t shard, const wire::ServerFailed& message) {
  std::string why = fmt::format("server {}: {}", shard, message.error());
  if (const LiveReplica* replica = replicas_.find(ReplicaId(message.not_here()))) {
    const Worker& worker = *replica->stages.front();
    why = fmt::format("{} did not leave the gradient that it said was ready", worker.name);
    wrong_workers_[worker.name] = why;
    refuse(*worker.stream, why);
  }
  servers_.send_back(shard, why);
  lose_server(shard, why);
}

void Coordinator::closed(const ServerStream::Pointer& stream) {
  if (!stream->spoke()) options_.notice(silent_visit(stream->peer()));
  const std::optional<std::size_t> shard = servers_.leave(stream);
  if (shard && !goodbye_said_) lose_server(*shard, fmt::format("server {} died", *shard));
  finish_if_done();
}

// As soon as those who came have every shard: whoever comes later may come too late.
void Coordinator::take_up_what_is_held(std::size_t server, const wire::Held& held) {
  if (!held_) return;
  const auto came = held_->came(server, held);
  auto found = came.ok() ? held_->found() : came;
  if (!found.ok()) {
    return options_.notice(fmt::format("what server {} says that it still has makes no sense: {}", server,
                                       message_of(found.status())));
  }
  if (!*found) return;
  held_.reset();
  const Version version = (*found)->books.state.version;
  if (version <= version_of(options_.restart).value_or(Version(0))) return options_.nothing_lost();
  lost_why_ = fmt::format("the servers still had version {}", version);
  go_on_from_rescue(replication_->take_up(**std::move(found)));
}

void Coordinator::start_servers_if_ready() {
  if (rescuing() || options_.only_look_without) return;
  if (!servers_.all_here() || !job_facts_) return;
  if (servers_.told_to_start()) return give_first_weights();
  std::vector<std::string> weights;
  if (!options_.restart) weights = initial_weights();
  if (!options_.restart && weights.size() < servers_.size()) return;
  if (held_) {
    options_.news(fmt::format(
        "{}; going on from {}", kNotAllHeld,
        options_.restart ? fmt::format("the checkpoint of version {}", options_.restart->state.version)
                         : "the start"));
    held_.reset();
  }
  wire::ServerStart start;
  start.set_job_toml(options_.job_toml);
  // A worker that died and its successor may both hold a version for a moment.
  start.set_readers(static_cast<std::int32_t>(2 * options_.job.replicas.size() + 1));
  start.set_announce(controller_->hears_of_completion());
  start.set_mark_file(options_.mark_file);
  start.set_mark_text(options_.mark_text);
  if (options_.restart) {
    completed_ = options_.restart->state.version;
    start.set_version(options_.restart->state.version.value());
    start.set_checkpoint_dir(options_.restart->checkpoint_dir);
  }
  start.set_evaluator_host(evaluator_host_);
  start.set_copies(static_cast<std::int32_t>(options_.job.copies));
  start.set_attempt(options_.attempt);
  servers_.start(start, weights);
  if (options_.restart && replication_) measure_restart();
}

// The commits up to there are not done again, and their evaluation may have been under way.
void Coordinator::measure_restart() {
  control::CommitRecord record;
  record.version = options_.restart->state.version;
  record.committed_before = options_.restart->state.ledger.committed();
  evaluations_.request(record, now(), controller_->finished());
}

// Where each server finds them, in memory of a worker that is here, on its own host: as many as are there.
std::vector<std::string> Coordinator::initial_weights() const {
  std::vector<std::string> paths;
  for (std::size_t shard = 0; shard < servers_.size(); ++shard) {
    const Worker* worker = workers_.first_attached(options_.job.hosts > 1 ? static_cast<int>(shard) : 0);
    if (worker != nullptr) paths.push_back(worker->attached->gradient_path());
  }
  return paths;
}

// The worker that had them died, or is wrong: another one's do as well.
absl::Status Coordinator::on_no_weights(std::size_t shard, const std::string& error) {
  if (options_.restart || !servers_.told_to_start() || !without_weights_.insert(shard).second)
    return absl::FailedPreconditionError(fmt::format("server {} started out of turn", shard));
  const int host = options_.job.hosts > 1 ? static_cast<int>(shard) : 0;
  if (const Worker* worker = workers_.with_memory(host, servers_.first_weights(shard))) {
    const auto stream = worker->stream;
    send_away(stream, fmt::format("server {} cannot read its weights: {}", shard, store::printable(error)));
  }
  give_first_weights();
  return absl::OkStatus();
}

void Coordinator::give_first_weights() {
  for (const std::size_t shard : std::set<std::size_t>(without_weights_)) {
    const Worker* worker = workers_.first_attached(options_.job.hosts > 1 ? static_cast<int>(shard) : 0);
    if (worker == nullptr) continue;
    without_weights_.erase(shard);
    servers_.start_with(shard, worker->attached->gradient_path());
  }
}

absl::Status Coordinator::on_started(std::size_t shard, const wire::ServerStarted& started) {
  if (!started.error().empty()) return on_no_weights(shard, started.error());
  PACELINE_RETURN_IF_ERROR(servers_.started(shard, started));
  for (auto& [stream, worker] : workers_.all()) send_boards(worker);
  welcome_evaluator();
  return absl::OkStatus();
}

// ---- The evaluator ----

void Coordinator::received(const EvaluatorStream::Pointer& stream, const wire::EvaluatorMessage& message) {
  if (can_go_on_ || rescuing()) return;
  if (stream == evaluator_) evaluator_heard_at_ = std::chrono::steady_clock::now();
  if (message.has_hello() && goodbye_said_) {
    rpc::say_goodbye(*stream, last_word());
  } else if (message.has_hello() && evaluator_ == nullptr) {
    evaluator_ = stream;
    evaluator_heard_at_ = std::chrono::steady_clock::now();
    wire::EvaluatorOrder order;
    order.mutable_welcome()->set_job_toml(options_.job_toml);
    stream->send(std::move(order));
    welcome_evaluator();
  } else if (message.has_evaluated() && stream == evaluator_) {
    on_evaluated(message.evaluated());
  } else if (!message.has_beat()) {
    stream->close();
  }
}

void Coordinator::welcome_evaluator() {
  if (!servers_.all_started() || evaluator_ == nullptr || std::exchange(evaluator_has_boards_, true)) return;
  wire::EvaluatorOrder order;
  *order.mutable_boards() = servers_.boards(evaluator_host_, kEvaluatorSlot);
  evaluator_->send(std::move(order));
  evaluations_.evaluator_is_ready();
}

void Coordinator::evaluate(Version version) {
  wire::EvaluatorOrder order;
  order.mutable_evaluate()->set_version(version.value());
  evaluator_->send(std::move(order));
}

void Coordinator::on_evaluated(const wire::Evaluated& message) {
  const auto evaluated = evaluations_.evaluated(message);
  if (!evaluated) return;
  for (control::RunListener* listener : options_.listeners) listener->on_evaluated(*evaluated);
  if (options_.job.stop_at_target && control::meets(*options_.job.target, *evaluated))
    ask_stop("the target is reached");
  finish_if_done();
}

void Coordinator::closed(const EvaluatorStream::Pointer& stream) {
  if (stream == evaluator_) lose_evaluator();
}

void Coordinator::lose_evaluator() {
  evaluator_ = nullptr;
  evaluator_has_boards_ = false;
  evaluator_gone_at_ = std::chrono::steady_clock::now();
  evaluations_.evaluator_is_gone();
  if (!goodbye_said_ && !rescuing())
    options_.notice("the evaluator is lost; what it was to measure waits for another one");
  finish_if_done();
}

// ---- Orders ----

void Coordinator::carry_out(const control::CommitRecord& record) {
  if (replication_) replication_->ordered(controller_->take_states(), now().time_since_epoch());
  wire::ServerOrder order;
  *order.mutable_apply() = to_wire(record);
  if (replication_) {
    const CertainCommits::Books& books = replication_->ordered(record.version);
    order.mutable_apply()->set_state(store::to_text(books.state));
    order.mutable_apply()->set_elapsed_ns(books.elapsed.count());
  }
  order.mutable_apply()->set_group(options_.job.reduce_in_group && order_reduction(record, replicas_));
  servers_.tell(order);
  if (record.keep_for_evaluation) evaluations_.request(record, now(), controller_->finished());
  if (record.checkpoint) write_checkpoint(*record.checkpoint);
}

void Coordinator::carry_out(const control::Release& release) {
  LiveReplica* replica = replicas_.find(release.replica);
  if (replica == nullptr) return;  // it left in this very moment; the fact of it is on its way
  replica->lease = release.lease;
  for (const int host : hosts_of(*replica)) {
    if (options_.job.hosts == 1) break;
    wire::ServerOrder want;
    want.mutable_want()->set_host(host);
    want.mutable_want()->set_version(release.version.value());
    servers_.tell(want);
  }
  const wire::WorkerOrder order = release_order(release, now());
  for (const Worker* stage : replica->stages) stage->stream->send(order);
}

// ---- What it says of itself ----

std::vector<std::string> Coordinator::missing() const {
  std::vector<std::string> names;
  for (std::size_t shard = 0; shard < servers_.size(); ++shard) {
    if (!servers_.here(shard)) names.push_back(fmt::format("server{}", servers_.rank(shard)));
  }
  for (const std::size_t device : missing_devices()) names.push_back(options_.job.replicas[device].name);
  return names;
}

std::vector<std::size_t> Coordinator::missing_devices() const {
  std::vector<std::size_t> devices;
  for (std::size_t device = 0; device < options_.job.replicas.size(); ++device) {
    if (!workers_.here(device)) devices.push_back(device);
  }
  return devices;
}

std::string Coordinator::phase() const {
  if (finishing_) return "finishing";
  if (training()) return "training";
  return fmt::format("starting: {} of {} workers are here", workers_.size(), options_.job.replicas.size());
}

}  // namespace paceline::rpc

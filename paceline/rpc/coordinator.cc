#include "paceline/rpc/coordinator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/config/planning.h"
#include "paceline/config/server_parts.h"
#include "paceline/rpc/goodbye.h"
#include "paceline/rpc/group_reduction.h"
#include "paceline/rpc/wire.h"
#include "paceline/rpc/worker_orders.h"
#include "paceline/store/controller_state_json.h"
#include "paceline/transport/weight_board.h"

namespace paceline::rpc {

namespace {

constexpr std::chrono::seconds kGoodbyeLimit{5};
constexpr std::chrono::seconds kEvaluatorLimit{30};
constexpr std::chrono::milliseconds kOwnPause{500};
constexpr int kEvaluatorSlot = 0;
constexpr char kNotAllHeld[] = "the servers that came have not all parts of a newer version";

std::string message_of(const absl::Status& status) { return std::string(status.message()); }

// Where a worker reads the weights.
int reader_slot(const Worker& worker) {
  return kEvaluatorSlot + 1 + worker.number % (transport::WeightWriter::kSlots - 1);
}

// As after a message that is none, or one that is too long.
std::string silent_visit(const std::string& peer) {
  return fmt::format("refused a process at {}: it ended without a word that makes sense", peer);
}

std::optional<Version> version_of(const std::optional<Restart>& restart) {
  if (!restart) return std::nullopt;
  return restart->state.version;
}

}  // namespace

Coordinator::Coordinator(EventLoop& loop, CoordinatorOptions options)
    : loop_(loop),
      options_(std::move(options)),
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

// ---- Workers ----

void Coordinator::received(const WorkerStream::Pointer& stream, const wire::WorkerMessage& message) {
  if (rescuing()) return;  // it comes again, to the next attempt
  if (message.has_hello()) return on_hello(stream, message.hello());
  Worker* worker = workers_.find(stream);
  if (worker == nullptr) return;  // it was sent away, and this was on its way
  worker->heard.heard(std::chrono::steady_clock::now());
  if (const absl::Status status = on_message(*worker, message); !status.ok())
    send_away(stream, message_of(status));
}

void Coordinator::on_hello(const WorkerStream::Pointer& stream, const wire::WorkerHello& hello) {
  if (finishing_) return rpc::say_goodbye(*stream, "the job is over");
  const absl::Status taken = workers_.take_place(stream, hello.name());
  if (!taken.ok()) {
    options_.notice(fmt::format("refused a worker at {}: {}", stream->peer(), message_of(taken)));
    return refuse(*stream, message_of(taken));
  }
  wire::WorkerOrder order;
  order.mutable_welcome()->set_job_toml(options_.job_toml);
  stream->send(std::move(order));
}

absl::Status Coordinator::on_message(Worker& worker, const wire::WorkerMessage& message) {
  switch (message.what_case()) {
    case wire::WorkerMessage::kAttached:
      return on_attached(worker, message.attached());
    case wire::WorkerMessage::kJoined:
      return on_joined(worker);
    case wire::WorkerMessage::kRoleTaken:
      return on_role_taken(worker, message.role_taken());
    case wire::WorkerMessage::kReady:
      return on_ready(worker, message.ready());
    default:
      return absl::OkStatus();
  }
}

absl::Status Coordinator::on_attached(Worker& worker, const wire::WorkerAttached& attached) {
  if (worker.attached) return absl::FailedPreconditionError("attached twice");
  if (!job_facts_) PACELINE_RETURN_IF_ERROR(learn_job(attached));
  if (!job_facts_) return absl::OkStatus();  // the run has failed
  if (attached.dataset_size() != job_facts_->dataset_size()) {
    return absl::InvalidArgumentError(fmt::format("{} has a data set of {} samples, the others one of {}",
                                                  worker.name, attached.dataset_size(),
                                                  job_facts_->dataset_size()));
  }
  if (attached.layout().SerializeAsString() != job_facts_->layout().SerializeAsString()) {
    return absl::InvalidArgumentError(fmt::format("{} built another model than the others", worker.name));
  }
  worker.attached = attached;
  start_servers_if_ready();
  send_boards(worker);
  return absl::OkStatus();
}

// An error is the worker's fault; what is wrong with the job ends the run.
absl::Status Coordinator::learn_job(const wire::WorkerAttached& attached) {
  PACELINE_ASSIGN_OR_RETURN(const ps::Layout layout, from_wire(attached.layout()));
  if (attached.dataset_size() <= 0) return absl::InvalidArgumentError("the data set is empty");
  absl::Status status = servers_.split(layout);
  if (status.ok()) status = make_controller(attached.dataset_size());
  if (!status.ok()) {
    fail(status);
    return absl::OkStatus();
  }
  job_facts_ = attached;
  return absl::OkStatus();
}

absl::Status Coordinator::make_controller(std::int64_t dataset_size) {
  control::ControllerConfig config = config::controller_config(options_.job, dataset_size);
  config.keep_states = replication_.has_value();
  auto controller = std::make_unique<LiveController>(
      loop_, config, policy::make_policy(options_.job.policy), options_.listeners,
      [this](const control::Order& order) { std::visit([this](const auto& one) { carry_out(one); }, order); },
      replication_ ? [this] { return keep_books(); } : std::function<absl::Status()>());
  if (options_.restart)
    PACELINE_RETURN_IF_ERROR(controller->restore(options_.restart->state, options_.restart->elapsed));
  if (auto planning = config::replanner_options(options_.job, config::RunTime::kWall)) {
    PACELINE_ASSIGN_OR_RETURN(replanner_, control::Replanner::create(*std::move(planning)));
  }
  controller_ = std::move(controller);
  options_.on_data_known(config);
  if (replanner_ == nullptr) return absl::OkStatus();
  for (control::RunListener* listener : options_.listeners) listener->on_plan(replanner_->first(now()));
  return absl::OkStatus();
}

absl::Status Coordinator::keep_books() {
  const absl::Status kept = options_.keep_books();
  if (!kept.ok()) fail(kept);
  return kept;
}

void Coordinator::send_boards(Worker& worker) {
  if (!servers_.all_started() || !worker.attached || worker.boards_sent) return;
  worker.boards_sent = true;
  wire::WorkerOrder order;
  *order.mutable_boards() = servers_.boards(worker.host, reader_slot(worker));
  worker.stream->send(std::move(order));
}

absl::Status Coordinator::on_joined(Worker& worker) {
  if (!worker.boards_sent || worker.joined) return absl::FailedPreconditionError("joined out of turn");
  worker.joined = true;
  if (replanner_ != nullptr) replanner_->joined(worker.device);
  if (const LiveReplica* replica = replicas_.form(worker, workers_)) give_role(*replica);
  return absl::OkStatus();
}

// To the first stage that has none.
void Coordinator::give_role(const LiveReplica& replica) {
  replica.stages[replica.taken.size()]->stream->send(role_order(replica, replicas_.plan()));
}

absl::Status Coordinator::on_role_taken(const Worker& worker, const wire::RoleTaken& taken) {
  if (!worker.replica || worker.replica->value() != taken.replica())
    return absl::OkStatus();  // it is no more
  LiveReplica& replica = *replicas_.find(*worker.replica);
  if (stage_of(replica, worker) != replica.taken.size())
    return absl::FailedPreconditionError("took a role out of turn");
  replica.taken.push_back(taken);
  replica.whole = replica.taken.size() == replica.stages.size();
  if (!replica.whole) {
    give_role(replica);
    return absl::OkStatus();
  }
  wire::ServerOrder map;
  map.mutable_map_gradient()->set_replica(replica.id.value());
  map.mutable_map_gradient()->set_path(replica.stages.front()->attached->gradient_path());
  map.mutable_map_gradient()->set_host(replica.stages.front()->host);
  servers_.tell(map);
  if (plans_anew() && !replicas_.all_whole()) return absl::OkStatus();
  return join_those_that_are_whole();
}

absl::Status Coordinator::join_those_that_are_whole() {
  for (auto& [id, replica] : replicas_.all()) {
    if (!replica.whole || std::exchange(replica.joined, true)) continue;
    const planner::PlannedReplica& planned = replicas_.plan().replicas[replica.place];
    PACELINE_RETURN_IF_ERROR(controller_->take(
        control::ReplicaJoined{id, config::replica_name(options_.job, planned), planned.samples}));
  }
  return absl::OkStatus();
}

absl::Status Coordinator::on_ready(const Worker& worker, const wire::WorkerReady& ready) {
  PACELINE_ASSIGN_OR_RETURN(const auto fact, replicas_.done(worker, ready));
  if (replanner_ != nullptr && worker.replica && worker.replica->value() == ready.replica()) {
    const LiveReplica& replica = *replicas_.find(*worker.replica);
    replanner_->worked(replicas_.plan().replicas[replica.place], stage_of(replica, worker), replica.samples,
                       Duration(ready.worked_ns()));
  }
  if (!fact) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(controller_->take(*fact));
  if (replanner_ != nullptr) {
    replanner_->finished(fact->replica, fact->compute);
    end_batch_if_due();
  }
  return absl::OkStatus();
}

// ---- Plans ----

void Coordinator::end_batch_if_due() {
  if (!finishing_ && replanner_->finished() >= replicas_.all().size()) follow(replanner_->end_batch(now()));
}

void Coordinator::follow(const absl::StatusOr<control::Replanner::Ended>& ended) {
  if (!ended.ok()) {
    no_plan_ = {ended.status().code(),
                fmt::format("the devices that are left cannot go on: {}", message_of(ended.status()))};
    return ask_stop("no plan is possible any more");
  }
  if (ended->batch) {
    for (control::RunListener* listener : options_.listeners) listener->on_batch(*ended->batch);
  }
  if (ended->change) change_plan(*ended->change);
}

// Whoever was released this very moment gives its samples back: it has hardly begun.
void Coordinator::change_plan(const control::Replanner::Change& change) {
  const std::string why = "re-planned: " + change.adopted.why;
  while (!replicas_.all().empty()) leave(replicas_.dissolve(replicas_.all().begin()->first), why);
  if (finishing_) return;
  for (control::RunListener* listener : options_.listeners) listener->on_plan(change.adopted);
  replicas_.follow(change.adopted.plan);
  for (const planner::PlannedReplica& planned : replicas_.plan().replicas) {
    const Worker* worker = workers_.at(static_cast<std::size_t>(planned.devices.front()));
    const LiveReplica* replica = worker == nullptr ? nullptr : replicas_.form(*worker, workers_);
    if (replica != nullptr) give_role(*replica);
  }
  options_.news(change.line);
}

void Coordinator::closed(const WorkerStream::Pointer& stream) {
  if (!stream->spoke()) options_.notice(silent_visit(stream->peer()));
  remove_worker(stream, "its stream ended");
  finish_if_done();
}

void Coordinator::send_away(const WorkerStream::Pointer& stream, const std::string& why) {
  refuse(*stream, why);
  remove_worker(stream, why);
}

void Coordinator::remove_worker(const WorkerStream::Pointer& stream, const std::string& why) {
  const Worker* worker = workers_.find(stream);
  if (worker == nullptr) return;
  if (!finishing_ && !rescuing()) options_.notice(fmt::format("{} left: {}", worker->name, why));
  std::optional<LiveReplica> replica;
  std::string of_stage = why;
  if (worker->replica) {
    replica = replicas_.dissolve(*worker->replica);
    if (replica->stages.size() > 1)
      of_stage = fmt::format("stage {}, {}: {}", stage_of(*replica, *worker), worker->name, why);
    std::erase(replica->stages, worker);
    if (replanner_ != nullptr) replanner_->dissolved(replica->id);
  }
  const Worker gone = *workers_.remove(stream);
  if (finishing_ || rescuing()) return;
  if (replica) leave(*replica, of_stage);
  wire::ServerOrder order;
  order.mutable_release_reader()->set_reader(reader_slot(gone));
  if (gone.boards_sent) servers_.tell(order);
  if (plans_anew() && training()) plan_without(gone);
}

// The others finish the round, if there are any.
void Coordinator::plan_without(const Worker& gone) {
  replanner_->left(gone.device);
  const auto& all = replicas_.all();
  if (std::none_of(all.begin(), all.end(), [](const auto& one) { return one.second.joined; }))
    return follow(replanner_->give_up_batch(now()));
  end_batch_if_due();
}

// `stages` are those that are still here.
void Coordinator::leave(const LiveReplica& replica, const std::string& why) {
  for (const Worker* stage : replica.stages) stage->stream->send(dissolve_order(replica.id));
  if (!replica.joined) return;
  if (options_.job.reduce_in_group) {
    for (auto& [other, remaining] : workers_.all()) remaining.left.push_back(replica.id);
  }
  const absl::Status status = controller_->take(control::ReplicaLeft{replica.id, why});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
  // After whatever its leaving committed: the shards read orders in sequence.
  wire::ServerOrder unmap;
  unmap.mutable_unmap_gradient()->set_replica(replica.id.value());
  servers_.tell(unmap);
}

// ---- Servers ----

void Coordinator::received(const ServerStream::Pointer& stream, const wire::ServerMessage& message) {
  if (message.has_hello()) {
    if (goodbye_said_) return rpc::say_goodbye(*stream, "the job is over");
    if (rescuing()) return;
    if (const absl::Status taken = servers_.take_place(stream, message.hello()); !taken.ok())
      return refuse(*stream, message_of(taken));
    take_up_what_is_held(*servers_.shard_of(stream), message.hello().held());
    return start_servers_if_ready();
  }
  const std::optional<std::size_t> shard = servers_.shard_of(stream);
  if (!shard) return;
  servers_.hear(*shard);
  if (message.has_started()) {
    on_started(*shard, message.started());
  } else if (message.has_applied()) {
    on_applied(*shard, Version(message.applied().version()));
  } else if (message.has_prepared() && replication_) {
    const absl::Status status = replication_->prepared(*shard, Version(message.prepared().version()));
    if (!status.ok()) fail(status);
  } else if (message.has_rescued() && rescuing()) {
    go_on_from_rescue(replication_->written(*shard, message.rescued()));
  } else if (message.has_kept()) {
    evaluations_.kept(Version(message.kept().version()));
  } else if (message.has_written()) {
    if (const absl::Status status = checkpoints_.written(message.written()); !status.ok())
      return fail(status);
    finish_if_done();
  } else if (message.has_failed() && !goodbye_said_) {
    const std::string why = fmt::format("server {}: {}", *shard, message.failed().error());
    if (message.failed().host_lost()) return lose_server(std::nullopt, why);
    fail(absl::InternalError(why));
  }
}

void Coordinator::on_applied(std::size_t shard, Version version) {
  const Version by_all = servers_.applied(shard, version);
  while (completed_ < by_all) {
    completed_ = completed_.next();
    const absl::Status status = controller_->take(control::CommitComplete{completed_});
    if (!status.ok()) return fail(status);
  }
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
  if (!servers_.all_here() || !job_facts_ || servers_told_to_start_) return;
  const std::vector<std::string> weights = initial_weights();
  if (weights.size() < servers_.size()) return;
  servers_told_to_start_ = true;
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
  servers_.start(start, options_.restart ? std::vector<std::string>{} : weights);
  if (options_.restart && replication_) measure_restart();
}

// The commits up to there are not done again, and their evaluation may have been under way.
void Coordinator::measure_restart() {
  control::CommitRecord record;
  record.version = options_.restart->state.version;
  record.committed_before = options_.restart->state.ledger.committed();
  evaluations_.request(record, now(), controller_->finished());
}

// Where each server finds them, on its own host: as many as are there.
std::vector<std::string> Coordinator::initial_weights() {
  if (options_.job.hosts == 1) return std::vector<std::string>(servers_.size(), job_facts_->gradient_path());
  std::vector<std::string> paths;
  for (std::size_t host = 0; host < servers_.size(); ++host) {
    const Worker* worker = workers_.first_attached(static_cast<int>(host));
    if (worker != nullptr) paths.push_back(worker->attached->gradient_path());
  }
  return paths;
}

void Coordinator::on_started(std::size_t shard, const wire::ServerStarted& started) {
  if (const absl::Status status = servers_.started(shard, started); !status.ok()) return fail(status);
  for (auto& [stream, worker] : workers_.all()) send_boards(worker);
  welcome_evaluator();
}

// ---- The evaluator ----

void Coordinator::received(const EvaluatorStream::Pointer& stream, const wire::EvaluatorMessage& message) {
  if (rescuing()) return;
  if (message.has_hello() && goodbye_said_) {
    rpc::say_goodbye(*stream, "the job is over");
  } else if (message.has_hello() && evaluator_ == nullptr) {
    evaluator_ = stream;
    wire::EvaluatorOrder order;
    order.mutable_welcome()->set_job_toml(options_.job_toml);
    stream->send(std::move(order));
    welcome_evaluator();
  } else if (message.has_evaluated() && stream == evaluator_) {
    on_evaluated(message.evaluated());
  } else {
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
  if (stream != evaluator_) return;
  evaluator_ = nullptr;
  evaluator_has_boards_ = false;
  evaluator_gone_at_ = std::chrono::steady_clock::now();
  evaluations_.evaluator_is_gone();
  if (!goodbye_said_ && !rescuing())
    options_.notice("the evaluator died; what it was to measure waits for another one");
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
  if (!record.checkpoint) return;
  const absl::Status status = checkpoints_.request(*record.checkpoint, now().time_since_epoch());
  if (!status.ok()) fail(status);
}

void Coordinator::carry_out(const control::Release& release) {
  LiveReplica* replica = replicas_.find(release.replica);
  if (replica == nullptr) return;  // it left in this very moment; the fact of it is on its way
  replica->samples = release.lease.size();
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

// ---- The end ----

void Coordinator::tick() {
  give_up_silent();
  end_look();
  give_up_hosts();
  // An evaluator that does not come must not hold the end up for ever.
  if (finishing_ && evaluator_ == nullptr &&
      std::chrono::steady_clock::now() > std::max(finishing_at_, evaluator_gone_at_) + kEvaluatorLimit)
    evaluations_.give_up();
  finish_if_done();
}

void Coordinator::give_up_silent() {
  const SteadyTime now = std::chrono::steady_clock::now();
  // When this process itself stood still, so did its hearing.
  if (now - std::exchange(last_tick_, now) > kOwnPause) listening_since_ = now;
  if (now - listening_since_ < kOwnPause) return;
  for (const auto& [stream, why] : workers_.silent(now)) {
    give_up(*stream, why);
    remove_worker(stream, why);
  }
  if (const auto silent = servers_.silent(now); silent && !goodbye_said_) {
    servers_.give_up(silent->shard);
    lose_server(silent->shard, silent->why);
  }
}

// A job goes back to where it was with all its hosts, as long as they may come. This one is here.
void Coordinator::give_up_hosts() {
  const bool waiting = options_.again && options_.job.hosts > 1 && !finishing_ && !training() && !rescuing();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since_;
  if (!waiting || servers_.all_here() || waited.count() < options_.job.host_patience_s) return;
  for (std::size_t host = 0; host < servers_.size(); ++host) {
    if (!servers_.here(host) && servers_.rank(host) != options_.host)
      lost_hosts_.push_back(servers_.rank(host));
  }
  if (lost_hosts_.empty()) return;
  go_back(fmt::format("host {} did not come back within {} s; going on without it",
                      fmt::join(lost_hosts_, ", host "), options_.job.host_patience_s));
}

void Coordinator::end_look() {
  if (!options_.only_look_without || rescuing() || finishing_) return;
  const std::vector<int>& without = *options_.only_look_without;
  for (std::size_t host = 0; held_ && host < servers_.size(); ++host) {
    const bool awaited = std::find(without.begin(), without.end(), servers_.rank(host)) == without.end();
    if (awaited && !servers_.here(host)) return;
  }
  go_back(held_ ? kNotAllHeld : "the servers have nothing newer");
}

void Coordinator::ask_stop(const std::string& why) {
  if (finishing_) return;
  if (!training() && !rescuing()) return finish();
  if (std::exchange(stop_asked_, true) || !training()) return;
  const absl::Status status = controller_->take(control::StopAsked{why});
  PACELINE_CHECK(status.ok(), "{}", message_of(status));
}

void Coordinator::fail(absl::Status status) {
  if (goodbye_said_) return;
  result_.Update(status);
  evaluations_.forget();
  checkpoints_.forget();
  finish();
}

// What came after the last checkpoint is lost. The streams just end, and who hears no goodbye comes again.
void Coordinator::go_back(const std::string& why) {
  if (can_go_on_) return;
  // What could not even start is not tried again and again, but what has trained before is. What is over is
  // so once its last checkpoint is there, and who asks for a stop gets one.
  const bool worth_it = training() || options_.again || options_.restart.has_value();
  if (!worth_it || stop_asked_ || !result().ok()) return fail(absl::UnavailableError(why));
  can_go_on_ = true;
  result_.Update(absl::UnavailableError(why));
  finishing_ = true;
  if (controller_ != nullptr) controller_->end();
  loop_.stop();
}

// `shard`: of the server; nothing where two cannot reach each other. What the others have is written first,
// where it is kept twice.
void Coordinator::lose_server(std::optional<std::size_t> shard, const std::string& why) {
  const bool copied = replication_ && (training() || rescuing());
  if (!copied || !result_.ok() || goodbye_said_ || can_go_on_) return go_back(why);
  if (lost_why_.empty()) {
    lost_why_ = why;
    finishing_ = false;  // it is not over yet
    controller_->end();
    evaluations_.forget();
    checkpoints_.forget();
  }
  go_on_from_rescue(replication_->lose(shard, checkpoints_.newest()));
}

void Coordinator::go_on_from_rescue(const absl::Status& step) {
  if (goodbye_said_) return;
  if (step.ok() && !replication_->rescued()) return;
  if (step.ok() && !training()) options_.nothing_lost();
  if (!step.ok()) lost_why_ += fmt::format(", and its copies were not to be had: {}", message_of(step));
  finishing_ = stop_asked_;
  if (!stop_asked_ || !step.ok()) return go_back(lost_why_);
  say_goodbye();
}

Version Coordinator::seen() const {
  if (controller_ == nullptr) return Version(0);
  return replication_ ? replication_->certain() : controller_->version();
}

void Coordinator::finish() {
  finishing_ = true;
  finishing_at_ = std::chrono::steady_clock::now();
  if (controller_ != nullptr) controller_->end();
  finish_if_done();
}

void Coordinator::finish_if_done() {
  if (!finishing_ || can_go_on_) return;
  if (goodbye_said_) {
    const bool all_gone = workers_.size() == 0 && servers_.none_here() && evaluator_ == nullptr;
    if (all_gone || std::chrono::steady_clock::now() > goodbye_at_ + kGoodbyeLimit) loop_.stop();
    return;
  }
  if (!evaluations_.empty() || checkpoints_.writing()) return;
  if (result_.ok() && training() && controller_->version() != checkpoints_.newest()) {
    const absl::Status status = checkpoints_.request(controller_->save(), now().time_since_epoch());
    if (status.ok()) return;
    result_.Update(status);
  }
  say_goodbye();
}

void Coordinator::say_goodbye() {
  if (std::exchange(goodbye_said_, true)) return;
  goodbye_at_ = std::chrono::steady_clock::now();
  const std::string why = result().ok() ? "the job is over" : message_of(result());
  for (const auto& [stream, worker] : workers_.all()) rpc::say_goodbye(*worker.stream, why);
  servers_.say_goodbye(why);
  if (evaluator_ != nullptr) rpc::say_goodbye(*evaluator_, why);
}

std::vector<std::string> Coordinator::missing() const {
  std::vector<std::string> names;
  for (std::size_t shard = 0; shard < servers_.size(); ++shard) {
    if (!servers_.here(shard)) names.push_back(fmt::format("server{}", servers_.rank(shard)));
  }
  for (std::size_t device = 0; device < options_.job.replicas.size(); ++device) {
    if (!workers_.here(device)) names.push_back(options_.job.replicas[device].name);
  }
  return names;
}

std::string Coordinator::phase() const {
  if (finishing_) return "finishing";
  if (training()) return "training";
  return fmt::format("starting: {} of {} workers are here", workers_.size(), options_.job.replicas.size());
}

}  // namespace paceline::rpc

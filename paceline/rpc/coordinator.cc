#include "paceline/rpc/coordinator.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/rpc/wire.h"
#include "paceline/transport/weight_board.h"

namespace paceline::rpc {

namespace {

// A crash ends the stream and is known at once. This is for a process that is stopped, or hangs: so many
// times its own rhythm without a word, and never less than the floor, which a busy machine's scheduler needs.
constexpr double kSilentRhythms = 12;
constexpr std::chrono::duration<double> kSilentFloor{3.0};
// Evaluations that may wait for the evaluator; beyond that one is left out rather than a buffer held.
constexpr std::size_t kMostEvaluations = 4;
constexpr std::chrono::seconds kGoodbyeLimit{5};
constexpr std::chrono::seconds kEvaluatorLimit{30};
constexpr int kEvaluatorSlot = 0;

std::string message_of(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

Coordinator::Coordinator(EventLoop& loop, CoordinatorOptions options)
    : loop_(loop),
      options_(std::move(options)),
      servers_(static_cast<std::size_t>(options_.job.servers)),
      next_replica_(static_cast<std::int32_t>(options_.job.replicas.size())) {}

// ---- Workers ----

void Coordinator::received(const WorkerStream::Pointer& stream, const wire::WorkerMessage& message) {
  if (message.has_hello()) {
    on_hello(stream, message.hello());
    return;
  }
  const auto found = workers_.find(stream.get());
  if (found == workers_.end()) return;  // it was sent away, and this was on its way
  Worker& worker = found->second;
  const auto heard = std::chrono::steady_clock::now();
  worker.rhythm = 0.9 * worker.rhythm + 0.1 * std::chrono::duration<double>(heard - worker.heard);
  worker.heard = heard;
  if (const absl::Status status = on_message(worker, message); !status.ok()) {
    refuse(stream, message_of(status));
    remove_worker(stream.get(), message_of(status));
  }
}

void Coordinator::on_hello(const WorkerStream::Pointer& stream, const wire::WorkerHello& hello) {
  if (finishing_) return refuse(stream, "the job is over");
  const auto& places = options_.job.replicas;
  const auto is_it = [&](const config::ReplicaConfig& one) { return one.name == hello.name(); };
  const auto place = std::find_if(places.begin(), places.end(), is_it);
  if (place == places.end()) {
    return refuse(stream, fmt::format("the job has no replica '{}'; it has {} to {}", hello.name(),
                                      places.front().name, places.back().name));
  }
  for (const auto& [other, worker] : workers_) {
    if (worker.name == hello.name()) return refuse(stream, fmt::format("{} is here already", hello.name()));
  }
  const ReplicaId replica = new_replica(place - places.begin());
  workers_[stream.get()] = {.stream = stream,
                            .replica = replica,
                            .name = hello.name(),
                            .attached = {},
                            .heard = std::chrono::steady_clock::now()};
  by_replica_[replica] = stream.get();
  wire::WorkerOrder order;
  order.mutable_welcome()->set_job_toml(options_.job_toml);
  order.mutable_welcome()->set_replica(replica.value());
  stream->send(std::move(order));
}

// The first to take a place has its number, so that runs are alike however the processes race at the start.
ReplicaId Coordinator::new_replica(std::ptrdiff_t place) {
  const bool first = places_taken_.insert(place).second;
  return first ? ReplicaId(static_cast<std::int32_t>(place))
               : std::exchange(next_replica_, next_replica_.next());
}

absl::Status Coordinator::on_message(Worker& worker, const wire::WorkerMessage& message) {
  switch (message.what_case()) {
    case wire::WorkerMessage::kAttached:
      return on_attached(worker, message.attached());
    case wire::WorkerMessage::kJoined: {
      if (!worker.boards_sent || worker.joined) return absl::FailedPreconditionError("joined out of turn");
      worker.joined = true;
      const auto& place = *std::find_if(options_.job.replicas.begin(), options_.job.replicas.end(),
                                        [&](const auto& one) { return one.name == worker.name; });
      return take(control::ReplicaJoined{worker.replica, worker.name, place.batch});
    }
    case wire::WorkerMessage::kReady:
      return on_ready(worker, message.ready());
    default:
      return absl::OkStatus();
  }
}

absl::Status Coordinator::on_attached(Worker& worker, const wire::WorkerAttached& attached) {
  if (worker.attached) return absl::FailedPreconditionError("attached twice");
  if (!job_facts_) PACELINE_RETURN_IF_ERROR(learn_job(attached));
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

absl::Status Coordinator::learn_job(const wire::WorkerAttached& attached) {
  PACELINE_ASSIGN_OR_RETURN(const ps::Layout layout, from_wire(attached.layout()));
  if (attached.dataset_size() <= 0) return absl::InvalidArgumentError("the data set is empty");
  parts_ = layout.split(static_cast<int>(servers_.size()));
  if (parts_.size() < servers_.size()) {
    fail(absl::InvalidArgumentError(
        fmt::format("cluster.servers: the model has too few tensors for {} servers; write at most {}",
                    servers_.size(), parts_.size())));
    return absl::OkStatus();
  }
  job_facts_ = attached;
  const control::ControllerConfig config = config::controller_config(options_.job, attached.dataset_size());
  controller_ = std::make_unique<control::Controller>(config, policy::make_policy(options_.job.policy));
  std::optional<control::ControllerState> state;
  if (options_.restart) {
    state = options_.restart->state;
    last_checkpoint_ = state->version;
    if (const absl::Status status = controller_->restore(*state); !status.ok()) {
      fail(status);
      return absl::OkStatus();
    }
  }
  observer_ = std::make_unique<control::Observer>(controller_->bounds(), config.dataset_size,
                                                  config.total_samples, state);
  options_.on_data_known(config);
  return absl::OkStatus();
}

void Coordinator::send_boards(Worker& worker) {
  const bool started =
      std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return !s.board_path.empty(); });
  if (!started || !worker.attached || worker.boards_sent) return;
  worker.boards_sent = true;
  wire::ServerOrder map;
  map.mutable_map_gradient()->set_replica(worker.replica.value());
  map.mutable_map_gradient()->set_path(worker.attached->gradient_path());
  tell_servers(map);
  wire::WorkerOrder order;
  *order.mutable_boards() = boards(reader_slot(worker.replica));
  worker.stream->send(std::move(order));
}

absl::Status Coordinator::on_ready(Worker& worker, const wire::WorkerReady& ready) {
  if (!worker.joined) return absl::FailedPreconditionError("ready before it joined");
  return take(control::ReplicaReady{.replica = worker.replica,
                                    .clock = Clock(ready.clock()),
                                    .base = Version(ready.base()),
                                    .compute = Duration(ready.compute_ns()),
                                    .loss = ready.loss()});
}

void Coordinator::refuse(const WorkerStream::Pointer& stream, const std::string& why) {
  wire::WorkerOrder order;
  order.mutable_goodbye()->set_refused(true);
  order.mutable_goodbye()->set_why(why);
  stream->send(std::move(order));
  stream->close();
}

void Coordinator::closed(const WorkerStream::Pointer& stream) {
  remove_worker(stream.get(), "its process ended");
  finish_if_done();
}

void Coordinator::remove_worker(WorkerStream* stream, const std::string& why) {
  const auto found = workers_.find(stream);
  if (found == workers_.end()) return;
  const Worker worker = std::move(found->second);
  workers_.erase(found);
  by_replica_.erase(worker.replica);
  if (finishing_) return;
  options_.notice(fmt::format("{} left: {}", worker.name, why));
  if (worker.joined) {
    const absl::Status status = take(control::ReplicaLeft{worker.replica, why});
    PACELINE_CHECK(status.ok(), "{}", message_of(status));
  }
  // After whatever its leaving committed: the shards read orders in sequence.
  wire::ServerOrder order;
  order.mutable_reclaim()->set_replica(worker.replica.value());
  order.mutable_reclaim()->set_reader(reader_slot(worker.replica));
  if (worker.boards_sent) tell_servers(order);
}

int Coordinator::reader_slot(ReplicaId replica) const {
  return kEvaluatorSlot + 1 + replica.value() % (transport::WeightWriter::kSlots - 1);
}

// ---- Servers and the evaluator ----

void Coordinator::received(const ServerStream::Pointer& stream, const wire::ServerMessage& message) {
  if (message.has_hello()) return on_hello(stream, message.hello());
  const auto server =
      std::find_if(servers_.begin(), servers_.end(), [&](const Server& s) { return s.stream == stream; });
  if (server == servers_.end()) return;
  if (message.has_started()) {
    server->board_path = message.started().board_path();
    on_servers_started();
  } else if (message.has_kept()) {
    on_kept(Version(message.kept().version()));
  } else if (message.has_written()) {
    on_written(message.written());
  } else if (message.has_failed()) {
    fail(absl::InternalError(
        fmt::format("server {}: {}", server - servers_.begin(), message.failed().error())));
  }
}

void Coordinator::on_hello(const ServerStream::Pointer& stream, const wire::ServerHello& hello) {
  const auto shard = static_cast<std::size_t>(hello.shard());
  if (shard >= servers_.size() || servers_[shard].stream != nullptr) {
    wire::ServerOrder order;
    order.mutable_goodbye()->set_refused(true);
    order.mutable_goodbye()->set_why(
        fmt::format("there is no place for a server of shard {}", hello.shard()));
    stream->send(std::move(order));
    stream->close();
    return;
  }
  servers_[shard].stream = stream;
  start_servers_if_ready();
}

void Coordinator::closed(const ServerStream::Pointer& stream) {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].stream != stream) continue;
    servers_[i].stream = nullptr;
    if (!goodbye_said_)
      fail(absl::UnavailableError(
          fmt::format("server {} died; its weights since the last checkpoint are lost", i)));
  }
  finish_if_done();
}

void Coordinator::start_servers_if_ready() {
  const bool here =
      std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.stream != nullptr; });
  if (!here || !job_facts_ || std::exchange(servers_told_to_start_, true)) return;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    wire::ServerOrder order;
    *order.mutable_start() = server_start(i);
    servers_[i].stream->send(std::move(order));
  }
}

wire::ServerStart Coordinator::server_start(std::size_t shard) const {
  wire::ServerStart start;
  std::int64_t offset = 0;
  std::int64_t whole = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (i < shard) offset += parts_[i].size();
    whole += parts_[i].size();
  }
  start.set_job_toml(options_.job_toml);
  start.set_shard(static_cast<std::int32_t>(shard));
  start.set_shard_count(static_cast<std::int32_t>(parts_.size()));
  *start.mutable_part() = to_wire(parts_[shard]);
  start.set_part_offset(offset);
  start.set_whole_floats(whole);
  // A replica that died and its successor may both hold a version for a moment.
  start.set_readers(static_cast<std::int32_t>(2 * options_.job.replicas.size() + 1));
  if (options_.restart) {
    start.set_version(options_.restart->state.version.value());
    start.set_checkpoint_dir(options_.restart->checkpoint_dir);
  } else {
    start.set_weights_path(job_facts_->gradient_path());
  }
  return start;
}

void Coordinator::on_servers_started() {
  for (auto& [stream, worker] : workers_) send_boards(worker);
  welcome_evaluator();
}

wire::Boards Coordinator::boards(int reader) const {
  wire::Boards message;
  message.set_reader(reader);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    wire::Board* board = message.add_boards();
    board->set_path(servers_[i].board_path);
    *board->mutable_part() = to_wire(parts_[i]);
  }
  return message;
}

void Coordinator::tell_servers(const wire::ServerOrder& order) {
  for (const Server& server : servers_) {
    if (server.stream != nullptr) server.stream->send(order);
  }
}

void Coordinator::received(const EvaluatorStream::Pointer& stream, const wire::EvaluatorMessage& message) {
  if (message.has_hello() && evaluator_ == nullptr) {
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
  const bool started =
      std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return !s.board_path.empty(); });
  if (!started || evaluator_ == nullptr || std::exchange(evaluator_has_boards_, true)) return;
  wire::EvaluatorOrder order;
  *order.mutable_boards() = boards(kEvaluatorSlot);
  evaluator_->send(std::move(order));
  // A short run may be over before the evaluator is ready.
  for (const auto& [version, pending] : evaluations_) {
    if (pending.kept_by == servers_.size()) send_evaluation(version);
  }
}

void Coordinator::closed(const EvaluatorStream::Pointer& stream) {
  if (stream != evaluator_) return;
  evaluator_ = nullptr;
  if (!goodbye_said_) options_.notice("the evaluator died; training goes on without evaluations");
  give_up_evaluations();
  finish_if_done();
}

// ---- The Controller ----

Time Coordinator::now() const {
  Time elapsed{};
  if (options_.restart) elapsed += options_.restart->elapsed;
  if (started_) elapsed += std::chrono::steady_clock::now() - *started_;
  return elapsed;
}

absl::Status Coordinator::take(decltype(control::Fact::what) what) {
  if (finishing_) return absl::OkStatus();
  const control::Fact fact{now(), std::move(what)};
  std::vector<control::Order> orders;
  PACELINE_RETURN_IF_ERROR(controller_->handle(fact, orders));
  if (controller_->started() && !started_) started_ = std::chrono::steady_clock::now();
  // Peers first: they wait for their orders, the books do not.
  bool finished = false;
  for (const control::Order& order : orders) {
    std::visit(Overloaded{
                   [&](const control::CommitRecord& record) { carry_out(record); },
                   [&](const control::Release& release) { carry_out(release); },
                   [&](const control::Finish&) { finished = true; },
                   [](const auto&) {},
               },
               order);
  }
  auto complaint = observer_->see(fact);
  for (control::RunListener* listener : options_.listeners) listener->on_fact(fact);
  for (const control::Order& order : orders) {
    if (!complaint) complaint = observer_->see(order);
    for (control::RunListener* listener : options_.listeners) listener->on_order(fact.at, order);
  }
  PACELINE_CHECK(!complaint, "{}", *complaint);
  if (finished) finish();
  return absl::OkStatus();
}

void Coordinator::carry_out(const control::CommitRecord& record) {
  wire::ServerOrder order;
  *order.mutable_apply() = to_wire(record);
  tell_servers(order);
  if (record.keep_for_evaluation) request_evaluation(record);
  if (record.checkpoint) request_checkpoint(record.version, *record.checkpoint);
}

void Coordinator::carry_out(const control::Release& release) {
  const auto found = by_replica_.find(release.replica);
  if (found == by_replica_.end()) return;  // it left in this very moment; the fact of it is on its way
  wire::WorkerOrder order;
  wire::WorkerRelease* message = order.mutable_release();
  message->set_clock(release.clock.value());
  message->set_version(release.version.value());
  *message->mutable_lease() = to_wire(release.lease);
  message->set_at_ns(now().time_since_epoch().count());
  workers_.at(found->second).stream->send(std::move(order));
}

void Coordinator::request_evaluation(const control::CommitRecord& record) {
  const bool last = controller_->finished();
  if (evaluator_gone_ || (!last && evaluations_.size() >= kMostEvaluations)) return;
  evaluations_[record.version] = {.at = now(), .samples = record.committed_after()};
  wire::ServerOrder order;
  order.mutable_keep()->set_version(record.version.value());
  tell_servers(order);
}

void Coordinator::on_kept(Version version) {
  const auto found = evaluations_.find(version);
  if (found == evaluations_.end() || ++found->second.kept_by < servers_.size()) return;
  if (evaluator_ != nullptr && evaluator_has_boards_) send_evaluation(version);
}

void Coordinator::send_evaluation(Version version) {
  wire::EvaluatorOrder order;
  order.mutable_evaluate()->set_version(version.value());
  evaluator_->send(std::move(order));
}

void Coordinator::give_up_evaluations() {
  evaluator_gone_ = true;
  while (!evaluations_.empty()) {
    drop(evaluations_.begin()->first);
    evaluations_.erase(evaluations_.begin());
  }
}

void Coordinator::on_evaluated(const wire::Evaluated& message) {
  const auto found = evaluations_.find(Version(message.version()));
  if (found == evaluations_.end()) return;
  const control::Evaluated evaluated{.at = found->second.at,
                                     .version = found->first,
                                     .samples = found->second.samples,
                                     .loss = message.loss(),
                                     .accuracy = message.accuracy()};
  evaluations_.erase(found);
  drop(evaluated.version);
  for (control::RunListener* listener : options_.listeners) listener->on_evaluated(evaluated);
  if (options_.job.stop_at_target && control::meets(*options_.job.target, evaluated)) {
    ask_stop("the target is reached");
  }
  finish_if_done();
}

void Coordinator::drop(Version version) {
  wire::ServerOrder order;
  order.mutable_drop()->set_version(version.value());
  tell_servers(order);
}

void Coordinator::request_checkpoint(Version version, control::ControllerState state) {
  // One at a time: the next one comes soon enough, and the last waits for this one (see finish_if_done).
  if (!checkpoints_.empty() && !controller_->finished()) return;
  if (!checkpoints_.empty() || version == last_checkpoint_) return;
  const auto dir = options_.checkpoints->begin(version);
  if (!dir.ok()) return fail(dir.status());
  checkpoints_[version] = {.state = std::move(state), .elapsed = now().time_since_epoch()};
  wire::ServerOrder order;
  order.mutable_write_checkpoint()->set_version(version.value());
  order.mutable_write_checkpoint()->set_dir(*dir);
  tell_servers(order);
}

void Coordinator::on_written(const wire::ServerWritten& written) {
  const auto found = checkpoints_.find(Version(written.version()));
  if (found == checkpoints_.end()) return;
  if (!written.error().empty()) return fail(absl::ResourceExhaustedError(written.error()));
  if (++found->second.written_by < servers_.size()) return;
  const PendingCheckpoint done = std::move(found->second);
  last_checkpoint_ = found->first;
  checkpoints_.erase(found);
  drop(last_checkpoint_);
  if (const absl::Status status = options_.checkpoints->finish(done.state, done.elapsed); !status.ok())
    return fail(status);
  finish_if_done();
}

// ---- The end ----

void Coordinator::tick() {
  const auto seen = std::chrono::steady_clock::now();
  std::vector<WorkerStream::Pointer> silent;
  for (const auto& [stream, worker] : workers_) {
    const auto limit = std::max(kSilentFloor, kSilentRhythms * worker.rhythm);
    if (worker.joined && seen - worker.heard > limit) silent.push_back(worker.stream);
  }
  for (const auto& stream : silent) {
    const std::string why = fmt::format(
        "silent for {:.1f} s", std::chrono::duration<double>(seen - workers_.at(stream.get()).heard).count());
    refuse(stream, why);
    remove_worker(stream.get(), why);
  }
  // An evaluator that never came must not hold the end up for ever.
  if (finishing_ && evaluator_ == nullptr && seen > finishing_at_ + kEvaluatorLimit) give_up_evaluations();
  finish_if_done();
}

void Coordinator::ask_stop(const std::string& why) {
  if (finishing_) return;
  if (controller_ != nullptr && controller_->started()) {
    const absl::Status status = take(control::StopAsked{why});
    PACELINE_CHECK(status.ok(), "{}", message_of(status));
  } else {
    finish();
  }
}

void Coordinator::fail(absl::Status status) {
  if (goodbye_said_) return;
  result_.Update(status);
  evaluations_.clear();
  checkpoints_.clear();
  finishing_ = true;
  say_goodbye();
}

void Coordinator::finish() {
  finishing_ = true;
  finishing_at_ = std::chrono::steady_clock::now();
  finish_if_done();
}

void Coordinator::finish_if_done() {
  if (!finishing_) return;
  if (goodbye_said_) {
    const bool servers_gone =
        std::none_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.stream != nullptr; });
    const bool all_gone = workers_.empty() && servers_gone && evaluator_ == nullptr;
    if (all_gone || std::chrono::steady_clock::now() > goodbye_at_ + kGoodbyeLimit) loop_.stop();
    return;
  }
  if (!evaluations_.empty() || !checkpoints_.empty()) return;
  const bool started = controller_ != nullptr && controller_->started();
  if (started && controller_->version() != last_checkpoint_) {
    control::ControllerState state = controller_->save();
    request_checkpoint(controller_->version(), std::move(state));
    if (!checkpoints_.empty() || goodbye_said_) return;
  }
  say_goodbye();
}

void Coordinator::say_goodbye() {
  if (std::exchange(goodbye_said_, true)) return;
  goodbye_at_ = std::chrono::steady_clock::now();
  const std::string why = result_.ok() ? "the job is over" : message_of(result_);
  const auto bid = [&](const auto& stream, auto order) {
    order.mutable_goodbye()->set_why(why);
    stream->send(std::move(order));
    stream->close();
  };
  for (const auto& [stream, worker] : workers_) bid(worker.stream, wire::WorkerOrder());
  for (const Server& server : servers_) {
    if (server.stream != nullptr) bid(server.stream, wire::ServerOrder());
  }
  if (evaluator_ != nullptr) bid(evaluator_, wire::EvaluatorOrder());
}

std::string Coordinator::phase() const {
  if (finishing_) return "finishing";
  if (started_) return "training";
  return fmt::format("starting: {} of {} workers are here", workers_.size(), options_.job.replicas.size());
}

}  // namespace paceline::rpc

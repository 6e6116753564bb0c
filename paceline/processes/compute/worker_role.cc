#include "paceline/processes/compute/worker_role.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/compute/attached_size.h"
#include "paceline/processes/compute/board_readers.h"
#include "paceline/processes/compute/computation.h"
#include "paceline/processes/compute/group_member.h"
#include "paceline/processes/compute/role_not_taken.h"
#include "paceline/processes/peer/heartbeats.h"
#include "paceline/processes/peer/peer.h"

namespace paceline::compute {

namespace {

using std::chrono::steady_clock;
// How often a wait for weights looks up whether the job is over.
constexpr std::chrono::milliseconds kPullPatience{200};
constexpr std::chrono::seconds kAnswerPatience{30};
// Lengths of shards in a message.
constexpr std::size_t kMostLengths = 2048;

// A worker's time, by what it was spent on; printed when it ends.
struct TimeSpent {
  Duration gradient{0}, pull{0}, pace{0}, own{0}, group{0}, stages{0};
  std::int64_t iterations = 0;

  void log(const std::string& name) const {
    if (iterations == 0) return;
    const auto each_ms = [&](Duration d) { return to_seconds(d) * 1e3 / static_cast<double>(iterations); };
    const double busy = to_seconds(gradient + own);
    spdlog::info(
        "{}: {} iterations; each {:.3f} ms gradient, {:.3f} ms own work ({:.2f} % of both), {:.3f} ms pull, "
        "{:.3f} ms pace, {:.3f} ms summing with others, {:.3f} ms waiting for other stages",
        name, iterations, each_ms(gradient), each_ms(own), busy > 0 ? 100 * to_seconds(own) / busy : 0,
        each_ms(pull), each_ms(pace), each_ms(group), each_ms(stages));
  }
};

class Worker {
 public:
  Worker(peer::WorkerConnection& connection, const WorkerRoleOptions& options, OwnEngine& engine,
         StageTraffic& traffic)
      : connection_(connection),
        name_(options.name),
        address_(options.address),
        engine_(engine),
        traffic_(traffic) {}

  // Up to the joining: everything that can be wrong with the job on this machine shows here.
  absl::Status join();
  // Releases, until the disconnect.
  absl::Status work();
  // Whether it is the first of the workers that are left, once the job is over.
  bool is_first() const { return is_first_; }
  // Returns `why`, with which the program failed, or Aborted if the program is to start again because batches have at
  // least `least` samples from now on.
  absl::Status ask_for_larger_batches(std::int64_t least, const absl::Status& why);

 private:
  absl::StatusOr<wire::WorkerOrder> expect(wire::WorkerOrder::WhatCase what);
  // Says that this device has no memory for its stage, or for the whole model. Another role comes next, or a disconnect.
  absl::Status wait_for_smaller_stage(const absl::Status& why);
  absl::Status carry_out(const wire::WorkerOrder& order);
  absl::Status take_role(const wire::Role& role);
  absl::Status iterate(const wire::WorkerRelease& release);
  absl::Status reduce(const wire::Reduce& order);
  absl::Status take_last(const wire::TakeLast& order);
  std::optional<BoardReaders::Pinned> pull(Version version, float reach);
  void say_lengths(wire::WorkerReady& ready);
  // Whether servers that expect a commit of this gradient may make it now.
  bool tells_servers(const wire::WorkerReady& ready, const wire::WorkerRelease& release) const;

  peer::WorkerConnection& connection_;
  const std::string name_, address_;
  OwnEngine& engine_;
  StageTraffic& traffic_;
  std::unique_ptr<Computation> computation_;
  std::optional<GroupMember> group_;
  std::optional<BoardReaders> boards_;
  bool is_first_ = false;
  std::size_t lengths_said_ = 0;  // the first lengths of Computation::lengths()
  TimeSpent spent_;
};

absl::StatusOr<wire::WorkerOrder> Worker::expect(wire::WorkerOrder::WhatCase what) {
  auto order = connection_.next();
  if (!order) return wire::coordinator_lost();
  if (order->has_disconnect()) {
    is_first_ = order->disconnect().first();
    PACELINE_RETURN_IF_ERROR(wire::outcome_of_job(order->disconnect()));
    return absl::CancelledError(order->disconnect().why());
  }
  if (order->what_case() != what) return absl::InternalError("the coordinator answered out of turn");
  return *std::move(order);
}

absl::Status Worker::join() {
  wire::WorkerMessage hello;
  hello.mutable_hello()->set_name(name_);
  if (!connection_.send(hello)) return wire::coordinator_lost();
  PACELINE_ASSIGN_OR_RETURN(const auto welcome, expect(wire::WorkerOrder::kWelcome));
  PACELINE_ASSIGN_OR_RETURN(
      computation_,
      Computation::create(welcome.welcome(), name_, address_, engine_, traffic_,
                          [this](std::chrono::nanoseconds limit) { return connection_.wait(limit); }));
  const ps::Layout& layout = computation_->layout();
  group_.emplace(computation_->gradient(), layout.size());

  wire::WorkerMessage attached;
  *attached.mutable_attached() = computation_->attached();
  PACELINE_RETURN_IF_ERROR(check_size(attached.attached(), welcome.welcome().job_toml().size()));
  if (!connection_.send(attached)) return wire::coordinator_lost();
  PACELINE_ASSIGN_OR_RETURN(const auto boards, expect(wire::WorkerOrder::kBoards));
  PACELINE_ASSIGN_OR_RETURN(boards_,
                            BoardReaders::open(boards.boards(), layout, computation_->job().look_ahead));
  PACELINE_RETURN_IF_ERROR(computation_->servers_started());
  computation_->share(boards_->memories());
  PACELINE_RETURN_IF_ERROR(computation_->use_cards(boards_->card_parts()));

  wire::WorkerMessage joined;
  joined.mutable_joined();
  return connection_.send(joined) ? absl::OkStatus() : wire::coordinator_lost();
}

absl::Status Worker::work() {
  while (true) {
    // Its order may be late because others wait for this very device.
    while (!connection_.wait(OwnEngine::kLook)) PACELINE_RETURN_IF_ERROR(engine_.check_alive());
    const auto order = connection_.next();
    if (!order) return wire::coordinator_lost();
    if (order->has_disconnect()) {
      spent_.log(name_);
      is_first_ = order->disconnect().first();
      return wire::outcome_of_job(order->disconnect());
    }
    PACELINE_RETURN_IF_ERROR(carry_out(*order));
  }
}

absl::Status Worker::ask_for_larger_batches(std::int64_t least, const absl::Status& why) {
  wire::WorkerMessage message;
  message.mutable_too_few()->set_least(least);
  message.mutable_too_few()->set_why(std::string(why.message()));
  if (!connection_.send(message)) return why;
  const absl::Status answer = peer::unless_disconnected(connection_, why, wire::outcome_of, kAnswerPatience);
  return absl::IsAborted(answer) ? answer : why;
}

absl::Status Worker::wait_for_smaller_stage(const absl::Status& why) {
  wire::WorkerMessage message;
  message.mutable_out_of_memory()->set_replica(*computation_->replica());
  message.mutable_out_of_memory()->set_why(std::string(why.message()));
  computation_->leave();
  return connection_.send(message) ? absl::OkStatus() : wire::coordinator_lost();
}

absl::Status Worker::carry_out(const wire::WorkerOrder& order) {
  switch (order.what_case()) {
    case wire::WorkerOrder::kRole:
      return take_role(order.role());
    case wire::WorkerOrder::kRelease:
      return iterate(order.release());
    case wire::WorkerOrder::kReduce:
      return reduce(order.reduce());
    case wire::WorkerOrder::kTakeLast:
      return take_last(order.take_last());
    case wire::WorkerOrder::kDissolve:
      computation_->leave();
      return absl::OkStatus();
    default:
      return absl::InternalError("the coordinator answered out of turn");
  }
}

absl::Status Worker::take_role(const wire::Role& role) {
  const absl::Status took = computation_->take(role);
  if (!took.ok()) {
    spdlog::warn("{}: {}", name_, std::string(took.message()));
    return role_not_taken(took, [this](std::chrono::nanoseconds limit) { return connection_.wait(limit); });
  }
  wire::WorkerMessage taken;
  taken.mutable_role_taken()->set_replica(role.replica());
  taken.mutable_role_taken()->set_gradient_path(computation_->gradient().path());
  if (const StageChannels* channels = computation_->channels()) {
    for (const std::string& path : channels->next_paths()) taken.mutable_role_taken()->add_next_paths(path);
    for (const std::string& path : channels->gradient_paths())
      taken.mutable_role_taken()->add_gradient_paths(path);
    taken.mutable_role_taken()->set_address(channels->address());
  }
  return connection_.send(taken) ? absl::OkStatus() : wire::coordinator_lost();
}

absl::Status Worker::reduce(const wire::Reduce& order) {
  const auto start = steady_clock::now();
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(group_->reduce(order, [&] { return boards_->published(version); }));
  spent_.group += steady_clock::now() - start;
  return absl::OkStatus();
}

absl::Status Worker::take_last(const wire::TakeLast& order) {
  const auto weights = pull(Version(order.version()), 0);
  if (!weights) return absl::OkStatus();  // the weights did not come in time; the disconnect is next
  const absl::Status took = computation_->take_last(weights->weights());
  boards_->unpin();
  if (absl::IsCancelled(took)) return absl::OkStatus();  // the disconnect is next
  PACELINE_RETURN_IF_ERROR(took);
  wire::WorkerMessage message;
  message.mutable_took_last();
  return connection_.send(message) ? absl::OkStatus() : wire::coordinator_lost();
}

absl::Status Worker::iterate(const wire::WorkerRelease& release) {
  if (!computation_->replica()) return absl::InternalError("the coordinator answered out of turn");
  const auto start = steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const float reach,
                            wire::look_ahead_reach(release, computation_->job().optimizer));
  // While the shards may still be updating.
  PACELINE_ASSIGN_OR_RETURN(const Computation::Compute compute, computation_->prepare(release));
  const auto prepared = steady_clock::now();
  // The worker does not know when weights came that were there before its samples.
  const bool waits = !boards_->published(Version(release.version()));
  const auto weights = pull(Version(release.version()), reach);
  if (!weights) return absl::OkStatus();  // the job or the replica ended meanwhile; the word of it is next
  const auto pulled = steady_clock::now();
  const auto outcome = compute(weights->weights());
  const auto computed = steady_clock::now();
  boards_->unpin();
  if (absl::IsResourceExhausted(outcome.status())) return wait_for_smaller_stage(outcome.status());
  PACELINE_RETURN_IF_ERROR(outcome.status());
  const auto& done = *outcome;
  if (!done) return absl::OkStatus();  // the replica or job ended meanwhile
  const Computation::Contributed contributed = computation_->contributed(*done);
  computation_->finish(Clock(release.clock()));
  // A pace is of what is computed: while its weights are not there a device computes nothing.
  const auto began = start + (pulled - prepared);
  const Duration whole = computation_->paced(release, computed - began);
  // the replica or job ended meanwhile
  if (connection_.wait(began + whole - steady_clock::now())) return absl::OkStatus();
  const auto paced = steady_clock::now();

  wire::WorkerMessage message;
  wire::WorkerReady* ready = message.mutable_ready();
  ready->set_clock(release.clock());
  ready->set_base(weights->version.value());
  ready->set_compute_ns(Duration(paced - start).count());
  ready->set_loading_ns(Duration(prepared - start + done->loading).count());
  ready->set_pulling_ns(waits ? Duration(pulled - prepared).count() : 0);
  const Duration waited = computation_->is_stage() ? done->stages + (pulled - start) : Duration::zero();
  ready->set_worked_ns(Duration(paced - start - waited).count());
  ready->set_loss(done->loss);
  ready->mutable_metrics()->insert(done->metrics.begin(), done->metrics.end());
  ready->set_replica(*computation_->replica());
  ready->set_not_finite(contributed.not_finite);
  ready->set_norm(contributed.norm);
  if (done->weight) ready->set_weight(*done->weight);
  if (done->data_end) ready->set_data_end(*done->data_end);
  say_lengths(*ready);
  if (!connection_.send(message)) return wire::coordinator_lost();
  if (tells_servers(*ready, release)) {
    computation_->say_ready(Clock(release.clock()));
    boards_->ring();
  }
  spent_.iterations += 1;
  spent_.gradient += computed - pulled - done->pace - done->stages;
  spent_.pull += pulled - prepared;
  spent_.pace += done->pace + (paced - computed);
  spent_.stages += done->stages;
  spent_.own += (prepared - start) + (steady_clock::now() - paced);
  return absl::OkStatus();
}

// The coordinator has the message before servers make a commit of it: a local socket keeps what was sent if this process
// dies.
bool Worker::tells_servers(const wire::WorkerReady& ready, const wire::WorkerRelease& release) const {
  return connection_.is_local() && !computation_->is_stage() && ready.not_finite().empty() &&
         !ready.has_weight() && !ready.has_data_end() && ready.base() == release.version();
}

// A program that outlived a coordinator has many, so they go in several messages.
void Worker::say_lengths(wire::WorkerReady& ready) {
  const auto all = computation_->lengths();
  const std::size_t end = std::min(all.size(), lengths_said_ + kMostLengths);
  for (const engine::ShardLength& one : all.subspan(lengths_said_, end - lengths_said_)) {
    wire::ShardLength* const said = ready.add_lengths();
    said->set_shard(one.shard);
    said->set_records(one.records);
    said->set_name(one.name);
  }
  lengths_said_ = end;
}

std::optional<BoardReaders::Pinned> Worker::pull(Version version, float reach) {
  while (true) {
    auto pulled = reach == 0 ? boards_->pin(version, kPullPatience)
                             : boards_->pull_ahead(version, reach, kPullPatience);
    if (pulled) return pulled;
    if (connection_.wait(std::chrono::nanoseconds::zero())) return std::nullopt;
  }
}

}  // namespace

absl::Status run_worker(const WorkerRoleOptions& options) {
  OwnEngine engine(OwnEngine::Use::kTrain, options.job_file);
  std::optional<absl::Status> stopped;
  bool is_first = false;
  PACELINE_RETURN_IF_ERROR(peer::with_coordinator(
      options.reach, security::Role::kWorker, [&](peer::Stub& stub, const rpc::Access& access) {
        peer::WorkerConnection connection([&](grpc::ClientContext* context) {
          rpc::introduce(*context, access);
          return stub.Work(context);
        });
        StageTraffic traffic;
        const peer::Heartbeats heartbeats(connection, [&](wire::WorkerMessage& beat) {
          wire::Heartbeat& said = *beat.mutable_heartbeat();
          if (said.resident_bytes() > 0) traffic.report(said);
        });
        Worker worker(connection, options, engine, traffic);
        absl::Status outcome = worker.join();
        if (outcome.ok()) outcome = worker.work();
        is_first = worker.is_first();
        if (!outcome.ok()) outcome = peer::unless_over(connection, outcome);
        if (const auto few = engine.too_few(); few && !outcome.ok())
          outcome = worker.ask_for_larger_batches(few->enough, outcome);
        if (wire::is_stop(outcome)) stopped = outcome;
        if (absl::IsCancelled(outcome))
          return absl::OkStatus();  // the job was over before this worker was ready
        return peer::end_of_session(connection, outcome);
      }));
  return stopped ? wire::end_of_stopped(*stopped) : engine.end(is_first);
}

}  // namespace paceline::compute

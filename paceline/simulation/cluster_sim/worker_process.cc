#include "paceline/simulation/cluster_sim/worker_process.h"

#include <utility>

#include "paceline/formats/wire/wire.h"
#include "paceline/simulation/cluster_sim/shown.h"

namespace paceline::cluster_sim {

WorkerProcess::WorkerProcess(Cluster& cluster, std::string name, Home home, int job_host, double pace_ms)
    : Process(cluster.world, std::move(name), home),
      cluster_(cluster),
      job_host_(job_host),
      pace_ms_(pace_ms) {}

// New memory, with the first weights in it.
void WorkerProcess::make_memory() {
  path_ = fmt::format("{} {}", name(), ++memories_);
  const auto memory = std::make_shared<GradientMemory>();
  memory->floats.resize(static_cast<std::size_t>(model().size()));
  write_first(memory->floats);
  cluster_.memory[path_] = memory;
}

void WorkerProcess::begin() { connect(); }

void WorkerProcess::gone() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(true);
  cluster_.memory.erase(path_);
  replica_.reset();
  waiting_.reset();
}

void WorkerProcess::connect() {
  replica_.reset();
  waiting_.reset();
  cluster_.memory.erase(path_);
  make_memory();
  attempt_ = cluster_.coordinator_of(*this).attempt();
  stream_ = cluster_.coordinator_of(*this).connect<WorkerKind>(
      *this, {[this](const wire::WorkerOrder& order) { take(order); }, [this] { lost(); }});
  if (stream_ == nullptr) return try_again([this] { connect(); });
  connected();
  wire::WorkerMessage hello;
  hello.mutable_hello()->set_name(name());
  say(hello);
  beat();
}

void WorkerProcess::lost() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(false);
  ++iteration_;
  waiting_.reset();
  after(world_.between(1, 50), [this] { connect(); });
}

void WorkerProcess::beat() {
  after(kHeartbeat, [this, stream = stream_] {
    if (stream != stream_ || stream == nullptr) return;
    wire::WorkerMessage message;
    message.mutable_heartbeat();
    say(message);
    beat();
  });
}

void WorkerProcess::say(wire::WorkerMessage message) {
  if (stream_ == nullptr) return;
  if (!message.has_heartbeat() && !message.has_attached())
    world_.trace("{} → coordinator: {}", name(), Shown{message});
  stream_->say(std::move(message));
}

void WorkerProcess::take(const wire::WorkerOrder& order) {
  if (order.has_disconnect()) {
    if (order.disconnect().again()) return lost();
    if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(false);
    return end(wire::outcome_of(order.disconnect()));
  }
  wire::WorkerMessage message;
  if (order.has_welcome()) {
    message.mutable_attached()->set_dataset_size(kSamples);
    *message.mutable_attached()->mutable_layout() = wire::to_wire(model());
    message.mutable_attached()->set_gradient_path(path_);
    message.mutable_attached()->set_card("the cluster's");
    after(world_.between(1, 100), [this, message, stream = stream_] {
      if (stream == stream_) say(message);
    });
  } else if (order.has_boards()) {
    message.mutable_joined();
    say(message);
  } else if (order.has_role()) {
    replica_ = order.role().replica();
    // The servers may still read the gradient of the replica that this worker was in before, so it takes new
    // memory.
    make_memory();
    message.mutable_role_taken()->set_replica(*replica_);
    message.mutable_role_taken()->set_gradient_path(path_);
    say(message);
  } else if (order.has_dissolve()) {
    if (replica_ == order.dissolve().replica()) replica_.reset();
    waiting_.reset();
    ++iteration_;
  } else if (order.has_release()) {
    waiting_ = order.release();
    look_for_weights();
  }
}

void WorkerProcess::look_for_weights() {
  if (!alive() || !waiting_ || stream_ == nullptr) return;
  const auto readable = cluster_.readable(attempt_, job_host_);
  if (!readable || *readable < Version(waiting_->version())) return;
  const wire::WorkerRelease release = *std::exchange(waiting_, std::nullopt);
  cluster_.watch.seen(*readable);
  after(Milliseconds(pace_ms_ * (0.7 + 0.6 * world_.rng().uniform())),
        [this, release, base = *readable, number = ++iteration_, stream = stream_] {
          if (number != iteration_ || stream != stream_ || !replica_) return;
          GradientMemory& memory = *cluster_.memory.at(path_);
          if (cluster_.broken != Break::kStaleGradient || world_.chance(0.9))
            write_gradient(attempt_, *replica_, release.clock(), memory.floats);
          memory.clock = release.clock();
          wire::WorkerMessage message;
          message.mutable_ready()->set_clock(release.clock());
          message.mutable_ready()->set_base(base.value());
          message.mutable_ready()->set_compute_ns(1000);
          message.mutable_ready()->set_worked_ns(1000);
          message.mutable_ready()->set_replica(*replica_);
          message.mutable_ready()->set_loss(1);
          // A local socket is never cut.
          const bool local = cluster_.scenario.job.hosts == 1 &&
                             !cluster_.network.is_cut(place(), cluster_.coordinator_of(*this).place());
          const bool tells = local && base == Version(release.version());
          if (tells && cluster_.broken == Break::kReadyUnsaid) {
            tell_servers(release.clock());
            return after(world_.between(100, 1000), [this, message, stream] {
              if (stream == stream_) say(message);
            });
          }
          say(message);
          if (cluster_.broken == Break::kReadyTwice) say(message);
          if (tells) tell_servers(release.clock());
        });
}

// Like Worker::tells_servers().
void WorkerProcess::tell_servers(std::int64_t clock) {
  if (cluster_.broken != Break::kReadyUnsaid) stream_->keep();
  cluster_.memory.at(path_)->ready = {*replica_, clock};
  for (ServerProcess* server : cluster_.servers)
    world_.at(world_.now() + std::chrono::duration_cast<SteadyTime::duration>(world_.between(0.01, 1)),
              server->happening([server] { server->rung(); }));
}

EvaluatorProcess::EvaluatorProcess(Cluster& cluster, Home home)
    : Process(cluster.world, "evaluator", home), cluster_(cluster) {}

void EvaluatorProcess::begin() { connect(); }

void EvaluatorProcess::gone() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(true);
}

void EvaluatorProcess::connect() {
  stream_ = cluster_.coordinator_of(*this).connect<EvaluatorKind>(
      *this, {[this](const wire::EvaluatorOrder& order) { take(order); }, [this] { lost(); }});
  if (stream_ == nullptr) return try_again([this] { connect(); });
  connected();
  wire::EvaluatorMessage hello;
  hello.mutable_hello();
  stream_->say(hello);
  beat();
}

void EvaluatorProcess::lost() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(false);
  after(world_.between(1, 50), [this] { connect(); });
}

void EvaluatorProcess::beat() {
  after(kHeartbeat, [this, stream = stream_] {
    if (stream != stream_ || stream == nullptr) return;
    wire::EvaluatorMessage message;
    message.mutable_heartbeat();
    stream_->say(message);
    beat();
  });
}

void EvaluatorProcess::take(const wire::EvaluatorOrder& order) {
  if (order.has_disconnect()) {
    if (order.disconnect().again()) return lost();
    if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(false);
    return end(wire::outcome_of(order.disconnect()));
  }
  if (order.has_welcome()) {
    wire::EvaluatorMessage message;
    message.mutable_prepared();
    stream_->say(message);
    return;
  }
  if (!order.has_evaluate()) return;
  after(world_.between(5, 200), [this, version = order.evaluate().version(), stream = stream_] {
    if (stream != stream_ || stream == nullptr) return;
    wire::EvaluatorMessage message;
    message.mutable_evaluated()->set_version(version);
    stream_->say(message);
  });
}

}  // namespace paceline::cluster_sim

#include "paceline/simulation/cluster_sim/server_process.h"

#include <utility>

#include "paceline/simulation/cluster_sim/shown.h"
#include "paceline/simulation/cluster_sim/worker_process.h"

namespace paceline::cluster_sim {

namespace {

// How long a server that failed waits for a disconnect, like peer::unless_disconnected().
constexpr Milliseconds kDisconnectComes{2000};

}  // namespace

std::optional<Version> Cluster::readable(const std::string& attempt, int host) const {
  if (scenario.job.hosts > 1) {
    const ServerProcess& server = *servers.at(static_cast<std::size_t>(host));
    return server.published(attempt) ? server.shards().readable() : std::nullopt;
  }
  std::optional<Version> least;
  int here = 0, wanted = 0;
  for (const ServerProcess* server : servers) {
    const auto one = server->published(attempt);
    if (!one) continue;
    ++here;
    wanted = server->shards().count();
    if (!least || *one < *least) least = one;
  }
  if (here < wanted) return std::nullopt;
  return least;
}

void Cluster::published() {
  for (WorkerProcess* worker : workers) worker->look_for_weights();
}

ServerProcess::ServerProcess(Cluster& cluster, int rank, Home home)
    : Process(cluster.world, fmt::format("server{}", rank), home),
      cluster_(cluster),
      rank_(rank),
      shards_(cluster, *this, [this](const absl::Status& outcome) {
        settle(server_->prepared(outcome));
        work();
      }) {}

std::optional<Version> ServerProcess::published(const std::string& attempt) const {
  if (!alive() || !log_.started() || shards_.attempt() != attempt) return std::nullopt;
  return shards_.own_version();
}

void ServerProcess::begin() {
  log_ = {};
  connect();
}

void ServerProcess::gone() { end_session(true); }

void ServerProcess::end_session(bool dead) {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(dead);
  shards_.end_session();
  server_.reset();
  inbox_.clear();
}

void ServerProcess::connect() {
  stream_ = cluster_.coordinator_of(*this).connect<ServerKind>(*this, {[this](wire::ServerOrder order) {
                                                                         inbox_.push_back(std::move(order));
                                                                         work();
                                                                       },
                                                                       [this] { lost(); }});
  if (stream_ == nullptr) return try_again([this] { connect(); });
  connected();
  shards_.begin_session(cluster_.disks.of(cluster_.coordinator_of(*this).host()));
  server_.emplace(*this, log_, shards_);
  failed_ = false;
  stream_->say(hello());
  beat();
}

wire::ServerMessage ServerProcess::hello() const {
  wire::ServerMessage message;
  wire::ServerHello& hello = *message.mutable_hello();
  hello.set_shard(rank_);
  if (cluster_.scenario.job.hosts > 1) {
    hello.set_exchange(fmt::format("address {}", rank_));
    hello.set_fabric("tcp");
  }
  server_->introduce(hello);
  if (const wire::KeptShard* left = shards_.left()) *hello.mutable_kept() = *left;
  if (cluster_.broken == Break::kKeptTooNew && hello.has_kept())
    hello.mutable_kept()->set_version(hello.kept().version() + 1);
  if (cluster_.broken == Break::kForgetBallot) hello.clear_ballot();
  if (cluster_.broken == Break::kBallotTooHigh && hello.has_ballot() &&
      hello.ballot().made() == hello.ballot().published())
    hello.mutable_ballot()->set_made(hello.ballot().made() + 1);
  return message;
}

void ServerProcess::beat() {
  after(kHeartbeat, [this, stream = stream_] {
    if (stream != stream_ || stream == nullptr) return;
    wire::ServerMessage message;
    message.mutable_heartbeat();
    send(std::move(message));
    beat();
  });
}

// The stream was cut off, or this server is to come again.
void ServerProcess::lost() {
  end_session(false);
  after(world_.between(1, 50), [this] { connect(); });
}

bool ServerProcess::send(wire::ServerMessage message) {
  if (stream_ == nullptr) return false;
  if (!message.has_heartbeat()) world_.trace("{} → coordinator: {}", name(), Shown{message});
  stream_->say(std::move(message));
  return true;
}

void ServerProcess::work() {
  unless_killed([this] { take_orders(); });
}

void ServerProcess::rung() {
  unless_killed([this] {
    if (server_ && !server_->busy() && !failed_) settle(server_->look());
  });
}

void ServerProcess::unless_killed(const std::function<void()>& what) {
  try {
    what();
  } catch (const KilledInUpdate&) {
    world_.trace("{} is in the middle of an update", name());
    last_();
    kill();
  }
}

void ServerProcess::take_orders() {
  while (server_ && !server_->busy() && !inbox_.empty()) {
    wire::ServerOrder order = std::move(inbox_.front());
    inbox_.pop_front();
    if (order.has_disconnect()) return disconnect(order.disconnect());
    if (order.has_revoke() && cluster_.broken == Break::kForgetRevoke) {
      wire::ServerMessage revoked;
      revoked.mutable_revoked()->set_version(order.revoke().version());
      send(std::move(revoked));
      continue;
    }
    if (!failed_) settle(server_->take(std::move(order)));
  }
}

void ServerProcess::settle(const absl::Status& status) {
  if (status.ok()) return;
  failed_ = true;
  after(kDisconnectComes, [this, status, stream = stream_] {
    if (stream == nullptr || stream != stream_) return;
    if (server_->lost_host()) return lost();
    end_session(false);
    end(status);
  });
}

void ServerProcess::disconnect(const wire::Disconnect& order) {
  if (order.again()) return lost();
  end_session(false);
  end(wire::outcome_of(order));
}

}  // namespace paceline::cluster_sim

#include "paceline/simulation/cluster_sim/server_process.h"

#include <algorithm>
#include <utility>

#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/simulation/cluster_sim/worker_process.h"

namespace paceline::cluster_sim {

std::optional<Version> Cluster::readable(const std::string& attempt) const {
  std::optional<Version> least;
  int here = 0, wanted = 0;
  for (const ServerProcess* server : servers) {
    const auto one = server->published(attempt);
    if (!one) continue;
    ++here;
    wanted = server->shard_count();
    if (!least || *one < *least) least = one;
  }
  if (here < wanted) return std::nullopt;
  return least;
}

void Cluster::published() {
  for (WorkerProcess* worker : workers) worker->look_for_weights();
}

ServerProcess::ServerProcess(Cluster& cluster, int rank, Home home)
    : Process(cluster.world, fmt::format("server{}", rank), home), cluster_(cluster), rank_(rank) {}

std::optional<Version> ServerProcess::published(const std::string& attempt) const {
  if (!alive() || !log_.started() || attempt_ != attempt) return std::nullopt;
  return shards_.at(place_in_job_).version;
}

void ServerProcess::begin() {
  log_ = {};
  shards_.clear();
  kept_.clear();
  connect();
}

void ServerProcess::gone() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(true);
  leave_exchange();
  inbox_.clear();
  busy_ = false;
}

void ServerProcess::leave_exchange() {
  if (!std::exchange(exchanging_, false)) return;
  for (ServerProcess* other : cluster_.servers) {
    if (other != this && other->alive() && other->in_exchange(attempt_))
      cluster_.later(*this, *other, [other, attempt = attempt_] { other->lose_peer(attempt); });
  }
}

void ServerProcess::connect() {
  inbox_.clear();
  gradients_.clear();
  slices_.clear();
  sent_.clear();
  preparing_.reset();
  busy_ = false;
  const auto ballot = log_.ballot();
  if (!ballot) log_ = {}, shards_.clear();
  log_.new_session();
  disk_ = &cluster_.disks.of(cluster_.coordinator_of(*this).host());
  stream_ = cluster_.coordinator_of(*this).connect<ServerKind>(
      *this, {[this](wire::ServerOrder order) { take(std::move(order)); }, [this] { lost(); }});
  if (stream_ == nullptr) return try_again([this] { connect(); });
  connected();
  wire::ServerMessage hello;
  hello.mutable_hello()->set_shard(rank_);
  if (scenario_of_hosts()) {
    hello.mutable_hello()->set_exchange(fmt::format("address {}", rank_));
    hello.mutable_hello()->set_fabric("tcp");
  }
  if (ballot && cluster_.broken != Break::kForgetBallot) {
    *hello.mutable_hello()->mutable_ballot() = *ballot;
    if (cluster_.broken == Break::kBallotTooHigh && ballot->made() == ballot->published()) {
      hello.mutable_hello()->mutable_ballot()->set_made(ballot->made() + 1);
    }
  }
  stream_->say(hello);
  beat();
}

bool ServerProcess::scenario_of_hosts() const { return cluster_.scenario.job.hosts > 1; }

void ServerProcess::beat() {
  after(kHeartbeat, [this, stream = stream_] {
    if (stream != stream_ || stream == nullptr) return;
    wire::ServerMessage message;
    message.mutable_heartbeat();
    say(message);
    beat();
  });
}

// The stream was cut off.
void ServerProcess::lost() {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(false);
  leave_exchange();
  after(world_.between(1, 50), [this] { connect(); });
}

void ServerProcess::say(wire::ServerMessage message) {
  if (stream_ == nullptr) return;
  if (!message.has_heartbeat()) world_.trace("{} → coordinator: {}", name(), message.ShortDebugString());
  stream_->say(std::move(message));
}

void ServerProcess::take(wire::ServerOrder order) {
  inbox_.push_back(std::move(order));
  work();
}

void ServerProcess::work() {
  while (!busy_ && !inbox_.empty() && alive()) {
    const wire::ServerOrder order = std::move(inbox_.front());
    inbox_.pop_front();
    if (order.has_disconnect()) {
      if (!order.disconnect().again()) {
        if (stream_ != nullptr) std::exchange(stream_, nullptr)->leave(false);
        return end(wire::outcome_of(order.disconnect()));
      }
      return lost();
    }
    if (order.has_start()) {
      start(order.start());
      continue;
    }
    const auto actions = log_.take(order);
    if (!actions.ok()) return fail(std::string(actions.status().message()), false);
    act(*actions);
  }
}

void ServerProcess::start(const wire::ServerStart& order) {
  attempt_ = order.attempt();
  log_ = {};
  shards_.clear();
  kept_.clear();
  place_in_job_ = order.shard();
  shard_count_ = order.shard_count();
  std::vector<int> here{place_in_job_};
  if (order.copies() > 1) {
    here.clear();
    const coordinator::ServerShards kept = coordinator::shards_kept(order.hosts_size(), order.copies());
    for (const ShardId shard : kept[ServerId(place_in_job_)]) here.push_back(shard.value());
  }
  wire::ServerMessage message;
  message.mutable_started();
  for (const int shard : here) {
    Shard& one = shards_[shard];
    one.version = Version(order.version());
    if (order.checkpoint_dir().empty()) {
      const auto memory = cluster_.memory.find(order.weights_path());
      if (memory == cluster_.memory.end() || memory->second->clock != 0) {
        message.mutable_started()->set_error("the worker's weights are not there");
        shards_.clear();
        return say(message);
      }
    } else {
      // The checkpoint may have another number of parts. All parts of a version have the same content.
      one.content = disk_->checkpoints.at(order.checkpoint_dir()).shards.begin()->second.content;
    }
  }
  log_.start(order);
  exchanging_ = order.hosts_size() > 1;
  for (int i = 0; i < std::max(1, order.hosts_size()); ++i)
    message.mutable_started()->add_board_paths(name());
  say(message);
}

void ServerProcess::act(const server::Actions& actions) {
  for (const server::Action& action : actions) {
    if (!alive() || stream_ == nullptr) return;
    std::visit([this](const auto& one) { act(one); }, action);
  }
}

// A gradient that was ready can be read even if its worker died.
bool ServerProcess::has_gradients(const wire::Apply& commit) {
  for (const wire::Apply::Member& member : commit.members()) {
    const auto found = gradients_.find(member.replica());
    if (found == gradients_.end()) {
      world_.broken(fmt::format("{} is to commit the gradient of replica {}, which it was not told of",
                                name(), member.replica()));
      return false;
    }
    if (found->second != nullptr && found->second->clock != member.clock()) {
      world_.broken(fmt::format("{} is to commit iteration {} of replica {}, and its memory holds {}", name(),
                                member.clock(), member.replica(), found->second->clock));
      return false;
    }
  }
  return true;
}

void ServerProcess::act(const server::Make& make) {
  if (!has_gradients(make.commit)) return;
  Shard& shard = shards_.at(place_in_job_);
  shard.content = after_commit(shard.content, make.commit);
  shard.version = Version(make.commit.version());
  act(log_.made(shard.version));
  cluster_.published();
}

void ServerProcess::send_slices(std::int64_t version) {
  if (!sent_.insert(version).second) return;
  for (ServerProcess* other : cluster_.servers) {
    if (other == this || !other->in_exchange(attempt_)) continue;
    cluster_.later(*this, *other, [other, attempt = attempt_, version, from = rank_] {
      other->take_slice(attempt, version, from);
    });
  }
}

void ServerProcess::take_slice(const std::string& attempt, std::int64_t version, int from) {
  if (attempt != attempt_ || !exchanging_) return;
  slices_[version].insert(from);
  prepare_if_all_here();
}

void ServerProcess::act(const server::Prepare& prepare) {
  if (!has_gradients(prepare.commit)) return;
  busy_ = true;
  preparing_ = prepare.commit;
  send_slices(prepare.commit.version());
  after(world_.between(0.1, 3), [this] { prepare_if_all_here(); });
}

void ServerProcess::prepare_if_all_here() {
  if (!preparing_ || std::ssize(slices_[preparing_->version()]) + 1 < shard_count_) return;
  const wire::Apply commit = *std::exchange(preparing_, std::nullopt);
  busy_ = false;
  for (auto& [index, shard] : shards_) {
    if (shard.version.next() != Version(commit.version()))
      world_.broken(fmt::format("{} prepares version {} of shard {} after {}", name(), commit.version(),
                                index, shard.version));
    shard.prepared = after_commit(shard.content, commit);
  }
  act(log_.prepared(commit));
  if (cluster_.broken == Break::kPublishUncertain) act(server::Publish{Version(commit.version())});
  work();
}

void ServerProcess::act(const server::Publish& publish) {
  for (auto& [index, shard] : shards_) {
    if (!shard.prepared) continue;
    shard.content = *std::exchange(shard.prepared, std::nullopt);
    shard.version = publish.version;
    cluster_.watch.is_there(attempt_, fmt::format("shard {} on {}", index, name()), shard.version,
                            shard.content);
  }
  cluster_.published();
}

void ServerProcess::act(const server::CarryOut& turn) {
  const wire::ServerOrder& order = turn.order;
  wire::ServerMessage message;
  switch (order.what_case()) {
    case wire::ServerOrder::kMapGradient: {
      std::shared_ptr<GradientMemory>& memory = gradients_[order.map_gradient().replica()];
      const auto found = cluster_.memory.find(order.map_gradient().path());
      message.mutable_mapped()->set_replica(order.map_gradient().replica());
      if (scenario_of_hosts() && order.map_gradient().host() != place_in_job_) {
        memory = nullptr;
      } else if (found == cluster_.memory.end()) {
        message.mutable_mapped()->set_error("there is no such memory");
      } else {
        memory = found->second;
      }
      return say(message);
    }
    case wire::ServerOrder::kUnmapGradient:
      gradients_.erase(order.unmap_gradient().replica());
      return;
    case wire::ServerOrder::kKeep: {
      const Shard& own = shards_.at(place_in_job_);
      if (own.version != Version(order.keep().version())) {
        world_.broken(
            fmt::format("{} is to keep version {} at {}", name(), order.keep().version(), own.version));
        return;
      }
      kept_[own.version] = own.content;
      message.mutable_kept()->set_version(order.keep().version());
      return say(message);
    }
    case wire::ServerOrder::kDrop:
      kept_.erase(Version(order.drop().version()));
      return;
    case wire::ServerOrder::kWriteCheckpoint: {
      const Shard& own = shards_.at(place_in_job_);
      const Version version(order.write_checkpoint().version());
      if (own.version != version) {
        world_.broken(fmt::format("{} is to write version {} at {}", name(), version, own.version));
        return;
      }
      kept_[own.version] = own.content;
      return write(order.write_checkpoint().dir(), place_in_job_, own.content,
                   [this, version](const std::string& error) {
                     wire::ServerMessage written;
                     written.mutable_written()->set_version(version.value());
                     written.mutable_written()->set_error(error);
                     say(written);
                   });
    }
    default:
      return;
  }
}

// Writes the file, and syncs it later.
void ServerProcess::write(const std::string& folder, int shard, Content content,
                          std::function<void(const std::string&)> done) {
  const bool too_soon = cluster_.broken == Break::kCountBeforeWritten;
  const bool unsynced = cluster_.broken == Break::kForgetSync;
  if (too_soon) done("");
  after(world_.between(1, 30), [this, folder, shard, content, too_soon, unsynced, done = std::move(done),
                                stream = stream_, disk = disk_] {
    const auto found = disk->checkpoints.find(folder);
    const bool full = disk->full || found == disk->checkpoints.end();
    const bool tells = !too_soon && stream == stream_;
    if (full && tells) done("the disk is full");
    if (full) return;
    found->second.shards[shard] = {content, false};
    if (unsynced && tells) done("");
    world_.after(world_.between(1, unsynced ? 3000 : 10),
                 happening([this, folder, shard, unsynced, tells, done, stream, disk] {
                   const auto written = disk->checkpoints.find(folder);
                   const bool there = written != disk->checkpoints.end();
                   if (there) written->second.shards[shard].synced = true;
                   if (!unsynced && tells && stream == stream_) done(there ? "" : "the folder is gone");
                 }));
  });
}

void ServerProcess::act(const server::WriteCopy& copy) {
  if (copy.publish) act(server::Publish{copy.version});
  const auto found = shards_.find(copy.shard.value());
  const auto send_copy_written = [this, shard = copy.shard.value()](const std::string& error) {
    wire::ServerMessage written;
    written.mutable_copy_written()->set_shard(shard);
    written.mutable_copy_written()->set_error(error);
    say(written);
  };
  if (found == shards_.end() || found->second.version != copy.version)
    return send_copy_written("it is not here");
  write(copy.dir, copy.shard.value(), found->second.content, send_copy_written);
}

// The connection to another server of this attempt has ended.
void ServerProcess::lose_peer(const std::string& attempt) {
  if (!in_exchange(attempt) || stream_ == nullptr) return;
  leave_exchange();
  const bool stays = log_.cut_off();
  preparing_.reset();
  busy_ = false;
  fail("the traffic with another host has ended", true);
  if (stays) return work();
  lost();
}

void ServerProcess::fail(const std::string& why, bool host_lost) {
  wire::ServerMessage failed;
  failed.mutable_failed()->set_error(why);
  failed.mutable_failed()->set_host_lost(host_lost);
  say(failed);
}

}  // namespace paceline::cluster_sim

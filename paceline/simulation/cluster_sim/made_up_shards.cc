#include "paceline/simulation/cluster_sim/made_up_shards.h"

#include <algorithm>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/simulation/cluster_sim/server_process.h"

namespace paceline::cluster_sim {

void MadeUpShards::begin_session(RunFolder& disk) {
  end_session();
  disk_ = &disk;
  host_lost_ = false;
  missing_.reset();
  gradients_.clear();
  elsewhere_.clear();
  slices_.clear();
  sent_.clear();
}

void MadeUpShards::end_session() {
  ++session_;
  preparing_.reset();
  leave_exchange();
}

void MadeUpShards::leave_exchange() {
  if (!std::exchange(exchanging_, false)) return;
  for (ServerProcess* other : cluster_.servers) {
    if (&other->shards() != this && other->alive() && other->shards().in_exchange(attempt_))
      cluster_.later(process_, *other, [other, attempt = attempt_] { other->shards().lose_peer(attempt); });
  }
}

void MadeUpShards::lose_peer(const std::string& attempt) {
  if (!in_exchange(attempt)) return;
  leave_exchange();
  host_lost_ = true;
  traffic_.failed(traffic_status());
  if (std::exchange(preparing_, std::nullopt)) prepared_(traffic_status());
}

absl::Status MadeUpShards::traffic_status() const {
  return host_lost_ ? absl::UnavailableError("the traffic with another host has ended") : absl::OkStatus();
}

absl::Status MadeUpShards::broken(const std::string& promise) const {
  cluster_.world.broken(promise);
  return absl::InternalError(promise);
}

// ---- The start ----

absl::Status MadeUpShards::check(const wire::ServerStart& order, wire::ServerStarted& started) {
  if (!order.checkpoint_dir().empty() || order.take_up()) return absl::OkStatus();
  const auto memory = cluster_.memory.find(order.weights_path());
  if (memory == cluster_.memory.end() || memory->second->clock != 0)
    started.set_error("the worker's weights are not there");
  return absl::OkStatus();
}

absl::Status MadeUpShards::start(const wire::ServerStart& order, wire::ServerStarted& started,
                                 const Traffic& traffic) {
  if (order.take_up() && !left_) {
    started.set_error("nothing of it is left");
    return absl::OkStatus();
  }
  attempt_ = order.attempt();
  place_ = order.shard();
  count_ = order.shard_count();
  PACELINE_RETURN_IF_ERROR(order.take_up() ? take_up() : new_shards(order));
  started.set_kept(memory_.has_value());
  traffic_ = traffic;
  exchanging_ = order.hosts_size() > 1;
  for (int i = 0; i < std::max(1, order.hosts_size()); ++i) started.add_board_paths(process_.name());
  return absl::OkStatus();
}

absl::Status MadeUpShards::take_up() {
  const Memory left = *std::exchange(left_, std::nullopt);
  if (left.about.attempt() != attempt_ || left.about.shard() != place_ || left.about.shard_count() != count_)
    return broken(fmt::format("{} is to take up what it does not have", process_.name()));
  const Version version(left.about.version());
  shards_[place_] = {version, left.content, {}};
  board_ = std::exchange(kept_, {});
  cluster_.watch.is_there(attempt_, process_.name(), version, left.content);
  // Workers may wait for this very version. Here they do not read the memory of a server that is gone.
  process_.after(Milliseconds(0), [this] { cluster_.published(); });
  return absl::OkStatus();
}

// The launcher keeps a shard that is the only one, like LiveShards::can_be_kept().
absl::Status MadeUpShards::new_shards(const wire::ServerStart& order) {
  shards_.clear();
  kept_.clear();
  board_.clear();
  left_.reset();
  memory_.reset();
  Content content = kFirstContent;
  if (!order.checkpoint_dir().empty()) {
    const auto saved = disk_->checkpoints.find(order.checkpoint_dir());
    if (saved == disk_->checkpoints.end() || saved->second.shards.empty())
      return broken(fmt::format("{} is to start from a checkpoint that is not there", process_.name()));
    // The checkpoint may have another number of parts. All parts of a version have the same content.
    content = saved->second.shards.begin()->second.content;
  }
  shards_[place_] = {Version(order.version()), content, {}};
  if (order.copies() > 1) {
    const coordinator::ServerShards kept = coordinator::shards_kept(order.hosts_size(), order.copies());
    for (const ShardId shard : kept[ServerId(place_)])
      shards_[shard.value()] = {Version(order.version()), content, {}};
  }
  if (order.hosts_size() > 0 || order.copies() > 1) return absl::OkStatus();
  memory_.emplace();
  memory_->about.set_attempt(attempt_);
  memory_->about.set_shard(place_);
  memory_->about.set_shard_count(count_);
  note_in_memory();
  return absl::OkStatus();
}

void MadeUpShards::note_in_memory() {
  if (!memory_) return;
  const Shard& own = shards_.at(place_);
  memory_->about.set_version(own.version.value());
  memory_->content = own.content;
}

// ---- Gradients ----

absl::Status MadeUpShards::map_gradient(const wire::MapGradient& order) {
  elsewhere_.erase(order.replica());
  std::shared_ptr<GradientMemory>& memory = gradients_[order.replica()] = nullptr;
  if (cluster_.scenario.job.hosts > 1 && order.host() != place_) {
    elsewhere_.insert(order.replica());
    return absl::OkStatus();
  }
  const auto found = cluster_.memory.find(order.path());
  if (found == cluster_.memory.end()) return absl::NotFoundError("there is no such memory");
  memory = found->second;
  return absl::OkStatus();
}

absl::Status MadeUpShards::unmap_gradient(std::int32_t replica) {
  gradients_.erase(replica);
  // Gradients of this host may be on their way.
  return elsewhere_.erase(replica) > 0 ? absl::OkStatus() : traffic_status();
}

// A gradient that was ready can be read even if its worker died.
absl::Status MadeUpShards::has_gradients(const wire::Apply& commit) {
  for (const wire::Apply::Member& member : commit.members()) {
    const auto found = gradients_.find(member.replica());
    if (found == gradients_.end())
      return broken(fmt::format("{} is to commit the gradient of replica {}, which it was not told of",
                                process_.name(), member.replica()));
    if (elsewhere_.contains(member.replica())) continue;
    if (found->second == nullptr) {
      missing_ = member.replica();
      return absl::InternalError(fmt::format("the gradient of replica {} is not here", member.replica()));
    }
    if (found->second->clock != member.clock())
      return broken(fmt::format("{} is to commit iteration {} of replica {}, and its memory holds {}",
                                process_.name(), member.clock(), member.replica(), found->second->clock));
  }
  return absl::OkStatus();
}

void MadeUpShards::explain(wire::ServerFailed& failed) {
  if (missing_ && !failed.host_lost()) failed.set_not_here(*missing_);
}

absl::Status MadeUpShards::send_ahead(const wire::Apply& order) {
  send_slices(order.version());
  return traffic_status();
}

void MadeUpShards::send_slices(std::int64_t version) {
  if (!sent_.insert(version).second) return;
  for (ServerProcess* other : cluster_.servers) {
    if (&other->shards() == this || !other->shards().in_exchange(attempt_)) continue;
    cluster_.later(process_, *other, [other, attempt = attempt_, version, from = rank_] {
      other->shards().take_slice(attempt, version, from);
    });
  }
}

void MadeUpShards::take_slice(const std::string& attempt, std::int64_t version, int from) {
  if (!in_exchange(attempt)) return;
  slices_[version].insert(from);
  prepare_if_all_here();
}

// ---- Versions ----

absl::Status MadeUpShards::make(const wire::Apply& order) {
  const Version version(order.version());
  Shard& shard = shards_.at(place_);
  PACELINE_RETURN_IF_ERROR(has_gradients(order));
  // The same as ps::Shard::apply().
  if (version <= shard.version) return absl::OkStatus();
  if (version != shard.version.next())
    return absl::FailedPreconditionError(
        fmt::format("commit {} came after commit {}", version, shard.version));
  shard.content = after_commit(shard.content, order);
  shard.version = version;
  board_.clear();
  note_in_memory();
  cluster_.published();
  return absl::OkStatus();
}

std::optional<absl::Status> MadeUpShards::prepare(const wire::Apply& order) {
  PACELINE_RETURN_IF_ERROR(traffic_status());
  PACELINE_RETURN_IF_ERROR(has_gradients(order));
  preparing_ = order;
  send_slices(order.version());
  process_.after(cluster_.world.between(0.1, 3), [this] { prepare_if_all_here(); });
  return std::nullopt;
}

void MadeUpShards::prepare_if_all_here() {
  if (!preparing_ || std::ssize(slices_[preparing_->version()]) + 1 < count_) return;
  const wire::Apply commit = *std::exchange(preparing_, std::nullopt);
  for (auto& [index, shard] : shards_) {
    if (shard.version.next() != Version(commit.version()))
      cluster_.world.broken(fmt::format("{} prepares version {} of shard {} after {}", process_.name(),
                                        commit.version(), index, shard.version));
    shard.prepared = after_commit(shard.content, commit);
  }
  if (cluster_.broken == Break::kPublishUncertain) publish(Version(commit.version()));
  prepared_(absl::OkStatus());
}

void MadeUpShards::publish(Version version) {
  for (auto& [index, shard] : shards_) {
    if (!shard.prepared) continue;
    shard.content = *std::exchange(shard.prepared, std::nullopt);
    shard.version = version;
    cluster_.watch.is_there(attempt_, fmt::format("shard {} on {}", index, process_.name()), version,
                            shard.content);
  }
  cluster_.published();
}

std::vector<MadeUpShards::Kept>::iterator MadeUpShards::kept(Version version) {
  return std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.first == version; });
}

absl::Status MadeUpShards::keep(Version version, bool again) {
  const Shard& own = shards_.at(place_);
  Kept one{own.version, own.content};
  if (again && version < own.version) {
    const auto is_it = [&](const Kept& old) { return old.first == version; };
    const auto& there = kept(version) != kept_.end() ? kept_ : board_;
    const auto found = std::find_if(there.begin(), there.end(), is_it);
    if (found == there.end()) return absl::NotFoundError("the version is not here any more");
    one = *found;
  } else if (version != own.version) {
    return broken(fmt::format("{} is to keep version {} at {}", process_.name(), version, own.version));
  }
  if (std::ssize(kept_) >= server::kMostKept)
    return broken(fmt::format("{} is to keep more than {} versions", process_.name(), server::kMostKept));
  kept_.push_back(one);
  return absl::OkStatus();
}

void MadeUpShards::drop(Version version, bool) {
  if (const auto found = kept(version); found != kept_.end()) kept_.erase(found);
}

// ---- Checkpoints ----

absl::Status MadeUpShards::write_checkpoint(const wire::WriteCheckpoint& order, Done done) {
  write(order.dir(), place_, kept(Version(order.version()))->second, done);
  return absl::OkStatus();
}

void MadeUpShards::write_copy(const server::WriteCopy& copy, Done done) {
  if (copy.publish) publish(copy.version);
  const auto found = shards_.find(copy.shard.value());
  if (found == shards_.end() || found->second.version != copy.version)
    return done(absl::InternalError("it is not here"));
  write(copy.dir, copy.shard.value(), found->second.content, done);
}

// Writes the file, and syncs it later.
void MadeUpShards::write(const std::string& folder, int shard, Content content, const Done& done) {
  World& world = cluster_.world;
  const bool too_soon = cluster_.broken == Break::kCountBeforeWritten;
  const bool unsynced = cluster_.broken == Break::kForgetSync;
  const auto tell = [this, session = session_, done](const absl::Status& status) {
    if (session == session_) done(status);
  };
  if (too_soon) tell(absl::OkStatus());
  process_.after(world.between(1, 30), [this, &world, folder, shard, content, too_soon, unsynced, tell,
                                        disk = disk_] {
    const auto found = disk->checkpoints.find(folder);
    const bool full = disk->full || found == disk->checkpoints.end();
    if (full && !too_soon) tell(absl::ResourceExhaustedError("the disk is full"));
    if (full) return;
    found->second.shards[shard] = {content, false};
    if (unsynced) tell(absl::OkStatus());
    process_.after(world.between(1, unsynced ? 3000 : 10), [folder, shard, too_soon, unsynced, tell, disk] {
      const auto written = disk->checkpoints.find(folder);
      const bool there = written != disk->checkpoints.end();
      if (there) written->second.shards[shard].synced = true;
      if (!too_soon && !unsynced) tell(there ? absl::OkStatus() : absl::NotFoundError("the folder is gone"));
    });
  });
}

}  // namespace paceline::cluster_sim

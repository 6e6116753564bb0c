#include "paceline/simulation/cluster_sim/cluster_shards.h"

#include <algorithm>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/simulation/cluster_sim/server_process.h"

namespace paceline::cluster_sim {

namespace {

ps::Update update_of(const wire::Apply& order) {
  return {.version = Version(order.version()),
          .members = {},
          .learning_rate = order.learning_rate(),
          .fraction = order.fraction(),
          .only_finite = true,
          .of_differences = order.of_differences()};
}

}  // namespace

void ClusterShards::begin_session(RunFolder& disk) {
  end_session();
  disk_ = &disk;
  host_lost_ = false;
  missing_.reset();
  gradients_.clear();
  hosts_.clear();
}

void ClusterShards::end_session() {
  ++session_;
  preparing_.reset();
  leave_exchange();
}

absl::Status ClusterShards::broken(const std::string& promise) const {
  cluster_.world.broken(promise);
  return absl::InternalError(promise);
}

void ClusterShards::show(const Shard& shard, const std::string& where) const {
  cluster_.watch.is_there(attempt_, where, shard.shard->version(), shard.offset, shard.shard->weights());
}

// ---- Traffic with other hosts ----

// The messages to one host arrive in their order. They wait for that host's start, as for the connection of a link.
void ClusterShards::send(int host, HostMessage message) {
  Way& way = ways_[static_cast<std::size_t>(host)];
  for (ServerProcess* other : cluster_.servers) {
    if (other->shards().place() != host || !other->shards().in_exchange(attempt_)) continue;
    way.last = std::max(way.last, cluster_.network.arrival(process_.place(), other->place()));
    cluster_.world.at(way.last, other->happening([other, attempt = attempt_, message = std::move(message)] {
      other->shards().receive(attempt, message);
    }));
    return;
  }
  way.waiting.push_back(std::move(message));
}

void ClusterShards::connected(int host) {
  for (HostMessage& message : std::exchange(ways_[static_cast<std::size_t>(host)].waiting, {}))
    send(host, std::move(message));
}

void ClusterShards::leave_exchange() {
  if (!std::exchange(exchanging_, false)) return;
  traffic_->fail(absl::UnavailableError("the traffic with other hosts is over"));
  for (ServerProcess* other : cluster_.servers) {
    if (&other->shards() != this && other->alive() && other->shards().in_exchange(attempt_))
      cluster_.later(process_, *other, [other, attempt = attempt_] { other->shards().lose_peer(attempt); });
  }
}

void ClusterShards::lose_peer(const std::string& attempt) {
  if (!in_exchange(attempt)) return;
  leave_exchange();
  host_lost_ = true;
  told_.failed(traffic_status());
  if (std::exchange(preparing_, std::nullopt)) prepared_(traffic_status());
}

absl::Status ClusterShards::traffic_status() const {
  return host_lost_ ? absl::UnavailableError("the traffic with another host has ended") : absl::OkStatus();
}

void ClusterShards::receive(const std::string& attempt, const HostMessage& message) {
  if (in_exchange(attempt)) traffic_->receive(message);
}

// ---- Gradients, as in ExchangedCommits and LocalCommits ----

absl::Status ClusterShards::map_gradient(const wire::MapGradient& order) {
  hosts_[order.replica()] = commits_ ? order.host() : place_;
  gradients_.erase(order.replica());
  if (hosts_[order.replica()] != place_) return absl::OkStatus();
  const auto found = cluster_.memory.find(order.path());
  if (found == cluster_.memory.end()) return absl::NotFoundError("there is no such memory");
  gradients_[order.replica()] = found->second;
  return absl::OkStatus();
}

absl::Status ClusterShards::unmap_gradient(std::int32_t replica) {
  hosts_.erase(replica);
  // Gradients of this host may be on their way.
  return gradients_.erase(replica) > 0 ? traffic_status() : absl::OkStatus();
}

absl::StatusOr<int> ClusterShards::host_of(std::int32_t replica) const {
  const auto found = hosts_.find(replica);
  if (found == hosts_.end())
    return broken(fmt::format("{} is to use the gradient of replica {}, which it was not told of",
                              process_.name(), replica));
  return found->second;
}

// A gradient that was ready can be read even if its worker died.
absl::StatusOr<const float*> ClusterShards::gradient_of(std::int32_t replica, std::int64_t clock) {
  const auto found = gradients_.find(replica);
  if (found == gradients_.end()) {
    missing_ = replica;
    return absl::InternalError(fmt::format("the gradient of replica {} is not here", replica));
  }
  if (found->second->clock != clock)
    return broken(fmt::format("{} is to commit iteration {} of replica {}, and its memory holds {}",
                              process_.name(), clock, replica, found->second->clock));
  return found->second->floats.data();
}

absl::StatusOr<std::vector<exchange::HostMember>> ClusterShards::members_of(const wire::Apply& order) {
  std::vector<exchange::HostMember> members;
  for (const auto& member : order.members()) {
    PACELINE_ASSIGN_OR_RETURN(const int host, host_of(member.replica()));
    members.push_back(
        {host, nullptr, member.weight(), member.share(), member.waits(), EarlyNumber(member.early())});
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].host != place_ || !commits_->reads(members[i], members)) continue;
    const auto& member = order.members(static_cast<int>(i));
    PACELINE_ASSIGN_OR_RETURN(members[i].gradient, gradient_of(member.replica(), member.clock()));
  }
  return members;
}

absl::Status ClusterShards::send_early(const wire::SendEarly& order) {
  PACELINE_ASSIGN_OR_RETURN(const int host, host_of(order.replica()));
  const auto found = gradients_.find(order.replica());
  const bool here = found != gradients_.end() && found->second->clock == order.clock();
  if (host == place_ && !here) return absl::OkStatus();
  commits_->send_early(host, EarlyNumber(order.number()), here ? found->second->floats.data() : nullptr);
  return absl::OkStatus();
}

absl::Status ClusterShards::send_ahead(const wire::Apply& order) {
  PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
  return commits_->send(Version(order.version()), members);
}

void ClusterShards::explain(wire::ServerFailed& failed) {
  if (missing_ && !failed.host_lost()) failed.set_not_here(*missing_);
}

// ---- Versions ----

absl::Status ClusterShards::make(const wire::Apply& order) {
  PACELINE_RETURN_IF_ERROR(apply(order));
  show(shards_.front(), process_.name());
  cluster_.published();
  return absl::OkStatus();
}

bool ClusterShards::are_ready(const wire::Apply& order) {
  return std::all_of(order.members().begin(), order.members().end(), [&](const wire::Apply::Member& member) {
    const auto found = gradients_.find(member.replica());
    return found != gradients_.end() && found->second->ready == std::pair(member.replica(), member.clock());
  });
}

absl::Status ClusterShards::make_early(const wire::Apply& order) {
  PACELINE_RETURN_IF_ERROR(own().board().keep(own_version()));
  return make(order);
}

void ClusterShards::confirm(Version version) { own().board().drop(Version(version.value() - 1)); }

absl::Status ClusterShards::apply(const wire::Apply& order) {
  if (commits_) {
    PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
    return commits_->apply(own(), update_of(order), members);
  }
  ps::Update update = update_of(order);
  for (const auto& member : order.members()) {
    PACELINE_RETURN_IF_ERROR(host_of(member.replica()).status());
    if (cluster_.broken == Break::kSkipMissing && order.members_size() > 1 &&
        !gradients_.contains(member.replica()))
      continue;
    PACELINE_ASSIGN_OR_RETURN(const float* const gradient, gradient_of(member.replica(), member.clock()));
    update.members.push_back({gradient + shards_.front().offset, member.weight(), member.share()});
  }
  if (pieces_left_) {
    update.made = [this](std::span<const float>, std::int64_t, std::int64_t) {
      if ((*pieces_left_)-- == 0) throw KilledInUpdate();
    };
  }
  return own().apply(update);
}

std::optional<absl::Status> ClusterShards::prepare(const wire::Apply& order) {
  auto members = members_of(order);
  if (!members.ok()) return members.status();
  PACELINE_RETURN_IF_ERROR(commits_->send(Version(order.version()), *members));
  preparing_ = Commit{order, *std::move(members)};
  process_.after(cluster_.world.between(0.1, 3), [this] { prepare_if_all_here(); });
  return std::nullopt;
}

// Whether CommitExchange::prepare() finds all that it waits for.
bool ClusterShards::all_here(const Commit& commit) const {
  for (const exchange::HostMember& member : commit.members) {
    if (member.host == place_) continue;
    const auto of_host = std::count_if(commit.members.begin(), commit.members.end(),
                                       [&](const auto& one) { return one.host == member.host; });
    const bool early = of_host == 1 && member.early > EarlyNumber(0);
    const exchange::GradientName name = early ? exchange::GradientName(member.early)
                                              : exchange::GradientName(Version(commit.order.version()));
    for (const Shard& shard : shards_) {
      if (!traffic_->is_here(shard.index, member.host, name)) return false;
    }
  }
  return true;
}

void ClusterShards::prepare_if_all_here() {
  // Once the traffic has ended, what is missing never comes: that is an error.
  const bool hurries = cluster_.broken == Break::kWaitForNoGradient;
  if (!preparing_ || (exchanging_ && !hurries && !all_here(*preparing_))) return;
  const Commit commit = *std::exchange(preparing_, std::nullopt);
  std::vector<ps::Shard*> shards;
  for (const Shard& one : shards_) shards.push_back(one.shard.get());
  const absl::Status outcome = commits_->prepare(shards, update_of(commit.order), commit.members);
  is_prepared_ = outcome.ok();
  if (cluster_.broken == Break::kPublishUncertain && is_prepared_) publish(Version(commit.order.version()));
  prepared_(outcome);
}

void ClusterShards::publish(Version version) {
  if (!std::exchange(is_prepared_, false)) return;  // a deliberate break published it too early
  for (const Shard& one : shards_) {
    one.shard->publish();
    show(one, fmt::format("shard {} on {}", one.index, process_.name()));
  }
  traffic_->published(version);
  cluster_.published();
}

absl::Status ClusterShards::keep(const wire::Keep& order) {
  const Version version(order.version());
  memory::WeightWriter& board = own().board();
  const absl::Status kept = version < own().version() ? board.keep_again(version) : board.keep(version);
  if (kept.ok() || absl::IsNotFound(kept)) return kept;
  return broken(
      fmt::format("{} is to keep version {}: {}", process_.name(), version, std::string(kept.message())));
}

// The evaluator reads it on its own host.
bool ClusterShards::keeps_elsewhere(Version version) {
  if (!commits_ || place_ == evaluator_host_) return false;
  traffic_->keep(evaluator_host_, version);
  return true;
}

void ClusterShards::drop(Version version, bool checkpoint) {
  own().board().drop(version);
  if (commits_ && !checkpoint) traffic_->drop(version);
}

void ClusterShards::want(int host, Version version) {
  if (cluster_.broken == Break::kForgetWant && cluster_.world.chance(0.05)) return;
  if (commits_) traffic_->want(host, version);
}

void ClusterShards::release_reader(int reader) {
  own().board().release_reader(reader);
  if (commits_) traffic_->release_reader(reader);
}

std::optional<Version> ClusterShards::readable() const {
  return commits_ ? traffic_->mirrored(own_version()) : own_version();
}

// ---- Checkpoints ----

// The state moves on with the next commit, so it is copied. The weights stay on the board until they are written.
absl::Status ClusterShards::write_checkpoint(const wire::WriteCheckpoint& order, Done done) {
  PACELINE_ASSIGN_OR_RETURN(ps::OptimizerState state, own().read_state());
  const std::span<const float> weights = own().kept_weights(Version(order.version()));
  if (cluster_.broken == Break::kDropKept) own().board().drop(Version(order.version()));
  write(
      order.dir(), place_,
      [this, weights, state = std::move(state), session = session_]() mutable -> absl::StatusOr<PartNumbers> {
        if (session != session_) return absl::CancelledError("the session is over");
        if (cluster_.broken == Break::kStateLater) {
          PACELINE_ASSIGN_OR_RETURN(state, own().read_state());
        }
        return PartNumbers{shards_.front().offset, {weights.begin(), weights.end()}, std::move(state)};
      },
      done);
  return absl::OkStatus();
}

void ClusterShards::write_copy(const server::WriteCopy& copy, Done done) {
  if (copy.publish) publish(copy.version);
  write(
      copy.dir, copy.shard.value(),
      [this, copy]() -> absl::StatusOr<PartNumbers> {
        const auto found = std::find_if(shards_.begin(), shards_.end(), [&](const Shard& one) {
          return one.index == copy.shard.value() && one.shard->version() == copy.version;
        });
        if (found == shards_.end()) return absl::InternalError("it is not here");
        const std::span<const float> weights = found->shard->weights();
        PACELINE_ASSIGN_OR_RETURN(ps::OptimizerState state, found->shard->read_state());
        return PartNumbers{found->offset, {weights.begin(), weights.end()}, std::move(state)};
      },
      done);
}

// Writes the file, and syncs it later.
void ClusterShards::write(const std::string& folder, int shard, const Numbers& numbers, const Done& done) {
  World& world = cluster_.world;
  const bool too_soon = cluster_.broken == Break::kCountBeforeWritten;
  const bool unsynced = cluster_.broken == Break::kForgetSync;
  const auto tell = [this, session = session_, done](const absl::Status& status) {
    if (session == session_) done(status);
  };
  if (too_soon) tell(absl::OkStatus());
  process_.after(world.between(1, 30), [this, &world, folder, shard, numbers, too_soon, unsynced, tell,
                                        disk = disk_] {
    const auto found = disk->checkpoints.find(folder);
    const bool full = disk->full || found == disk->checkpoints.end();
    if (full && !too_soon) tell(absl::ResourceExhaustedError("the disk is full"));
    if (full) return;
    auto written = numbers();
    if (!written.ok()) return too_soon ? void() : tell(written.status());
    found->second.shards[shard] = {std::make_shared<const PartNumbers>(*std::move(written)), false};
    if (unsynced) tell(absl::OkStatus());
    process_.after(world.between(1, unsynced ? 3000 : 10), [folder, shard, too_soon, unsynced, tell, disk] {
      const auto copy = disk->checkpoints.find(folder);
      const bool there = copy != disk->checkpoints.end();
      if (there) copy->second.shards[shard].synced = true;
      if (!too_soon && !unsynced) tell(there ? absl::OkStatus() : absl::NotFoundError("the folder is gone"));
    });
  });
}

}  // namespace paceline::cluster_sim

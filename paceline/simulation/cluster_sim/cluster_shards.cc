#include "paceline/simulation/cluster_sim/cluster_shards.h"

#include <algorithm>

#include <fcntl.h>

#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/kept_state.h"
#include "paceline/simulation/cluster_sim/server_process.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::cluster_sim {

namespace {

constexpr int kThreads = 1;
// In floats. The real pieces are larger than the model.
constexpr std::int64_t kPiece = ps::Layout::kAlignment;

FileDescriptor copy_of(int descriptor) { return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

absl::StatusOr<ipc::SharedMemory> memory_of(const FileDescriptor& descriptor) {
  return ipc::SharedMemory::adopt(copy_of(descriptor.get()));
}

// As server_process/kept_memory.h has it.
std::uint64_t identity_of(const wire::ServerStart& order) {
  return text_hash(fmt::format("{}/{}/{}", order.attempt(), order.shard(), order.shard_count()));
}

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

// ---- The start ----

void ClusterShards::forget() {
  shards_.clear();
  is_prepared_ = false;
  pieces_left_.reset();
  left_ = nullptr;
  if (memory_ == nullptr) return;
  const auto memory = memory_of(memory_->board);
  const auto version = memory.ok() ? memory::WeightWriter::version_in(*memory) : memory.status();
  if (!version.ok()) return cluster_.world.broken(std::string(version.status().message()));
  left_ = memory_;
  left_->about.set_version(version->value());
}

absl::Status ClusterShards::check(const wire::ServerStart& order, wire::ServerStarted& started) {
  if (!order.checkpoint_dir().empty() || order.take_up()) return absl::OkStatus();
  const auto memory = cluster_.memory.find(order.weights_path());
  if (memory == cluster_.memory.end() || memory->second->clock != 0)
    started.set_error("the worker's weights are not there");
  return absl::OkStatus();
}

absl::Status ClusterShards::start(const wire::ServerStart& order, wire::ServerStarted& started,
                                  const Traffic& traffic) {
  if (order.take_up() && left_ == nullptr) {
    started.set_error("nothing of it is left");
    return absl::OkStatus();
  }
  attempt_ = order.attempt();
  place_ = order.shard();
  count_ = order.shard_count();
  is_prepared_ = false;
  commits_.reset();
  traffic_.reset();
  PACELINE_RETURN_IF_ERROR(order.take_up() ? take_up(order) : new_shards(order));
  told_ = traffic;
  if (order.hosts_size() > 0) PACELINE_RETURN_IF_ERROR(start_exchange(order));
  started.set_kept(memory_ != nullptr);
  for (int i = 0; i < std::max(1, order.hosts_size()); ++i) started.add_board_paths(process_.name());
  return absl::OkStatus();
}

absl::Status ClusterShards::take_up(const wire::ServerStart& order) {
  const std::shared_ptr<Memory> left = std::exchange(left_, nullptr);
  shards_.clear();
  PACELINE_RETURN_IF_ERROR(add_shard(place_, order, left.get()));
  if (const absl::Status taken = own().take_up(); !taken.ok())
    return broken(
        fmt::format("{} takes up what it does not have: {}", process_.name(), std::string(taken.message())));
  show(shards_.front(), process_.name());
  // Workers may wait for this very version. Here they do not read the memory of a server that is gone.
  process_.after(Milliseconds(0), [this] { cluster_.published(); });
  return absl::OkStatus();
}

// The launcher keeps a shard that is the only one, like LiveShards::can_be_kept().
absl::Status ClusterShards::new_shards(const wire::ServerStart& order) {
  shards_.clear();
  left_ = nullptr;
  memory_ = nullptr;
  if (order.hosts_size() == 0 && order.copies() <= 1) {
    memory_ = std::make_shared<Memory>();
    memory_->about.set_attempt(attempt_);
    memory_->about.set_shard(place_);
    memory_->about.set_shard_count(count_);
  }
  PACELINE_RETURN_IF_ERROR(add_shard(place_, order, nullptr));
  if (order.copies() > 1) {
    const coordinator::ServerShards kept = coordinator::shards_kept(order.hosts_size(), order.copies());
    for (const ShardId shard : kept[ServerId(place_)]) {
      if (shard.value() != place_) PACELINE_RETURN_IF_ERROR(add_shard(shard.value(), order, nullptr));
    }
  }
  return order.checkpoint_dir().empty() ? begin_with_first(order) : load(order);
}

// The same steps as KeptShards::add().
absl::Status ClusterShards::add_shard(int index, const wire::ServerStart& order, const Memory* left) {
  const config::JobConfig& job = cluster_.scenario.job;
  const bool own = index == order.shard();
  PACELINE_ASSIGN_OR_RETURN(ps::Layout part,
                            wire::part_from_wire(own ? order.part() : order.hosts(index).part()));
  std::int64_t offset = own ? order.part_offset() : 0;
  for (int before = 0; !own && before < index; ++before) {
    PACELINE_ASSIGN_OR_RETURN(const ps::Layout other, wire::part_from_wire(order.hosts(before).part()));
    offset += other.size();
  }
  const int readers = own ? order.readers() + order.hosts_size() : 1;
  const int most_kept = own ? server::kMostKept : 0;
  const std::int64_t floats = ps::Shard::board_floats(part, false);
  const auto make_board = [&]() -> absl::StatusOr<memory::WeightWriter> {
    if (left == nullptr) return memory::WeightWriter::create(floats, readers, most_kept);
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, memory_of(left->board));
    auto board = memory::WeightWriter::adopt(std::move(memory), floats, readers, most_kept);
    if (cluster_.broken == Break::kPublishHalf && board.ok() && board->take_again().ok())
      board->publish(board->version().next());
    return board;
  };
  PACELINE_ASSIGN_OR_RETURN(memory::WeightWriter board, make_board());
  const auto shape = [&] { return ps::KeptShape::of(part, job.optimizer.kind, kThreads, kPiece); };
  std::optional<ps::KeptState> state;
  if (left != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory memory, memory_of(left->state));
    PACELINE_ASSIGN_OR_RETURN(state, ps::KeptState::adopt(std::move(memory), shape(), identity_of(order)));
    if (cluster_.broken == Break::kForgetState) {
      PACELINE_ASSIGN_OR_RETURN(state, ps::KeptState::create(shape(), identity_of(order)));
      state->start(board.version(), 0);
    }
  } else if (memory_ != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(state, ps::KeptState::create(shape(), identity_of(order)));
    memory_->board = copy_of(board.memory().descriptor());
    memory_->state = copy_of(state->memory().descriptor());
  }
  shards_.push_back({index, offset,
                     std::make_unique<ps::Shard>(std::move(part), job.optimizer, std::move(board), kThreads,
                                                 job.groups, std::nullopt, std::move(state))});
  return absl::OkStatus();
}

absl::Status ClusterShards::begin_with_first(const wire::ServerStart& order) {
  const std::span<const float> first = cluster_.memory.at(order.weights_path())->floats;
  for (const Shard& one : shards_) {
    const auto part = first.subspan(static_cast<std::size_t>(one.offset),
                                    static_cast<std::size_t>(one.shard->layout().size()));
    PACELINE_RETURN_IF_ERROR(one.shard->start(Version(order.version()), part));
  }
  return absl::OkStatus();
}

// The checkpoint may have another number of parts.
absl::Status ClusterShards::load(const wire::ServerStart& order) {
  const auto saved = disk_->checkpoints.find(order.checkpoint_dir());
  if (saved == disk_->checkpoints.end())
    return broken(fmt::format("{} is to start from a checkpoint that is not there", process_.name()));
  std::vector<float> weights, velocity;
  double fractions = 0;
  for (const auto& [shard, file] : saved->second.shards) {
    weights.insert(weights.end(), file.numbers->weights.begin(), file.numbers->weights.end());
    const std::vector<float>& stream = file.numbers->state.streams.front();
    velocity.insert(velocity.end(), stream.begin(), stream.end());
    fractions = file.numbers->state.fractions;
  }
  if (std::ssize(weights) != model().size())
    return broken(fmt::format("{} is to start from a checkpoint that is not whole", process_.name()));
  for (const Shard& one : shards_) {
    const auto begin = one.offset, end = begin + one.shard->layout().size();
    PACELINE_RETURN_IF_ERROR(one.shard->restore_optimizer(
        {.streams = {{velocity.begin() + begin, velocity.begin() + end}}, .fractions = fractions}));
    PACELINE_RETURN_IF_ERROR(
        one.shard->start(Version(order.version()), {weights.data() + begin, weights.data() + end}));
  }
  return absl::OkStatus();
}

// ---- Traffic with other hosts ----

// The same steps as ExchangedCommits::start().
absl::Status ClusterShards::start_exchange(const wire::ServerStart& order) {
  std::vector<ps::Layout> parts;
  std::vector<std::int64_t> part_floats;
  for (const wire::HostShard& one : order.hosts()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout part, wire::part_from_wire(one.part()));
    part_floats.push_back(part.size());
    parts.push_back(std::move(part));
  }
  const auto by_server = coordinator::shards_kept(order.hosts_size(), std::max(1, order.copies()));
  std::vector<std::vector<int>> kept(by_server.size());
  for (const ServerId server : by_server.ids()) {
    for (const ShardId shard : by_server[server])
      kept[static_cast<std::size_t>(server.value())].push_back(shard.value());
  }
  traffic_ = std::make_unique<HostTraffic>(
      cluster_.world, place_, std::move(part_floats), kept[static_cast<std::size_t>(place_)],
      [this, last = std::vector<SteadyTime>(kept.size())](int host, GradientBlock block) mutable {
        for (ServerProcess* other : cluster_.servers) {
          if (other->shards().place() != host || !other->shards().in_exchange(attempt_)) continue;
          // The blocks of one link arrive in their order.
          SteadyTime& arrives = last[static_cast<std::size_t>(host)];
          arrives = std::max(arrives, cluster_.network.arrival(process_.place(), other->place()));
          cluster_.world.at(arrives, other->happening([other, attempt = attempt_, block = std::move(block)] {
            other->shards().receive(attempt, block);
          }));
          return;
        }
      },
      [this] { prepare_if_all_here(); }, cluster_.broken == Break::kWaitForNoGradient);
  commits_.emplace(*traffic_, std::move(parts), std::move(kept), place_);
  exchanging_ = order.hosts_size() > 1;
  return absl::OkStatus();
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

void ClusterShards::receive(const std::string& attempt, const GradientBlock& block) {
  if (in_exchange(attempt)) traffic_->receive(block);
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

void ClusterShards::publish(Version) {
  if (!std::exchange(is_prepared_, false)) return;  // it was published too early, on purpose
  for (const Shard& one : shards_) {
    one.shard->publish();
    show(one, fmt::format("shard {} on {}", one.index, process_.name()));
  }
  cluster_.published();
}

absl::Status ClusterShards::keep(Version version, bool again) {
  memory::WeightWriter& board = own().board();
  const absl::Status kept =
      again && version < own().version() ? board.keep_again(version) : board.keep(version);
  if (kept.ok() || absl::IsNotFound(kept)) return kept;
  return broken(
      fmt::format("{} is to keep version {}: {}", process_.name(), version, std::string(kept.message())));
}

void ClusterShards::drop(Version version, bool) { own().board().drop(version); }

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
      const auto written = disk->checkpoints.find(folder);
      const bool there = written != disk->checkpoints.end();
      if (there) written->second.shards[shard].synced = true;
      if (!too_soon && !unsynced) tell(there ? absl::OkStatus() : absl::NotFoundError("the folder is gone"));
    });
  });
}

}  // namespace paceline::cluster_sim

// The start of a server's shards: new ones, from a checkpoint, or in memory that an earlier server left.
#include <algorithm>

#include <fcntl.h>

#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/kept_state.h"
#include "paceline/simulation/cluster_sim/cluster_shards.h"
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

// The shard, its run and its attempt, like server_process/kept_memory.h.
std::uint64_t identity_of(const wire::ServerStart& order) {
  return text_hash(fmt::format("{}/{}/{}", order.attempt(), order.shard(), order.shard_count()));
}

}  // namespace

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
  const auto state = memory_of(left_->state);
  left_->about.set_begun(state.ok() && ps::KeptState::has_begun(*state, version->next()));
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

// The same steps as ExchangedCommits::start().
absl::Status ClusterShards::start_exchange(const wire::ServerStart& order) {
  HostTrafficOptions options;
  options.host = place_;
  std::vector<std::int64_t> offsets;
  std::int64_t offset = 0;
  for (const wire::HostShard& one : order.hosts()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout part, wire::part_from_wire(one.part()));
    offsets.push_back(std::exchange(offset, offset + part.size()));
    options.parts.push_back(std::move(part));
  }
  const auto by_server = coordinator::shards_kept(order.hosts_size(), std::max(1, order.copies()));
  std::vector<std::vector<int>> kept(by_server.size());
  for (const ServerId server : by_server.ids()) {
    for (const ShardId shard : by_server[server])
      kept[static_cast<std::size_t>(server.value())].push_back(shard.value());
  }
  options.kept = kept[static_cast<std::size_t>(place_)];
  options.own_board = own().board().path();
  options.readers = order.readers();
  options.broken = cluster_.broken;
  ways_.assign(kept.size(), {});
  options.send = [this](int host, HostMessage message) { send(host, std::move(message)); };
  options.when_gone = [this](std::function<void()> gone) {
    process_.after(cluster_.world.between(0.05, 2), [this, traffic = traffic_.get(), gone = std::move(gone)] {
      if (traffic == traffic_.get()) gone();
    });
  };
  options.arrived = [this] { prepare_if_all_here(); };
  options.mirrored = [this, offsets = std::move(offsets)](int shard, Version version,
                                                          std::span<const float> weights) {
    cluster_.watch.is_there(attempt_, fmt::format("the mirror of shard {} on {}", shard, process_.name()),
                            version, offsets[static_cast<std::size_t>(shard)], weights);
    cluster_.published();
  };
  options.kept_there = told_.kept_there;
  std::vector<ps::Layout> parts = options.parts;
  PACELINE_ASSIGN_OR_RETURN(traffic_, HostTraffic::start(cluster_.world, std::move(options)));
  commits_.emplace(*traffic_, std::move(parts), std::move(kept), place_);
  exchanging_ = order.hosts_size() > 1;
  evaluator_host_ = order.evaluator_host();
  for (ServerProcess* other : cluster_.servers) {
    if (&other->shards() != this && exchanging_ && other->shards().in_exchange(attempt_)) {
      other->shards().connected(place_);
      connected(other->shards().place());
    }
  }
  traffic_->published(own().version());
  return absl::OkStatus();
}

}  // namespace paceline::cluster_sim

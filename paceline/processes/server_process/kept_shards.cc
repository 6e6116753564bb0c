#include "paceline/processes/server_process/kept_shards.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "paceline/base/control_groups.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/processes/server/shards.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::server_process {

namespace {

// An update is as fast as the memory that it passes over. On 16 processors with a GPU one of 85 million
// weights under AdamW took 46 ms on 4 threads, 30 ms on 8 and 25 ms on 15. Workers that compute on the same
// processors want some.
int threads_for(const config::JobConfig& job) {
  if (job.server_threads > 0) return static_cast<int>(job.server_threads);
  const int processors = usable_processors();
  const bool one_works = config::spread_of(job) == config::ServerSpread::kCentral;
  const int share = processors / static_cast<int>(one_works ? 1 : job.servers);
  return std::clamp(std::min(share, std::max(4, share / 2)), 1, 16);
}

}  // namespace

bool KeptShards::can_outlive(const config::JobConfig& job) { return !ps::is_tensorwise(job.optimizer.kind); }

absl::StatusOr<FirstWeights> FirstWeights::of(const wire::ServerStart& order, const config::JobConfig& job) {
  FirstWeights first;
  if (!order.checkpoint_dir().empty() || (order.first_passed_on() && order.shard() == 0)) return first;
  PACELINE_ASSIGN_OR_RETURN(first.memory,
                            memory::GradientReader::open(order.weights_path(), order.whole_floats()));
  PACELINE_ASSIGN_OR_RETURN(first.weights, first.memory->gradient(Clock(0)));
  first.state = first.memory->first_state();
  if (first.state.empty()) return first;
  first.steps = first.memory->first_steps();
  const auto streams = static_cast<std::size_t>(ps::state_streams(job.optimizer.kind));
  if (first.state.size() != streams * first.weights.size() || !(first.steps > 0) ||
      !std::isfinite(first.steps))
    return absl::InvalidArgumentError("the optimizer's first state is not one of this job's optimizer");
  return first;
}

absl::StatusOr<KeptShards> KeptShards::start(const wire::ServerStart& order, const config::JobConfig& job,
                                             const FirstWeights& first, store::CheckpointFiles& checkpoint,
                                             ServersCard* card, KeptMemory* kept) {
  KeptShards shards;
  shards.count_ = order.shard_count();
  PACELINE_RETURN_IF_ERROR(shards.add(order.shard(), order, job, card, kept));
  if (order.copies() > 1) {
    if (order.copies() > order.hosts_size() || order.shard() >= order.hosts_size())
      return absl::InternalError(
          fmt::format("the coordinator wants {} copies on {} hosts", order.copies(), order.hosts_size()));
    const auto by_server = coordinator::shards_kept(order.hosts_size(), order.copies());
    const std::vector<ShardId>& here = by_server[ServerId(order.shard())];
    for (std::size_t copy = 1; copy < here.size(); ++copy)
      PACELINE_RETURN_IF_ERROR(shards.add(here[copy].value(), order, job, nullptr, nullptr));
  }
  if (order.checkpoint_dir().empty()) {
    if (!first.weights.empty()) PACELINE_RETURN_IF_ERROR(shards.begin_with(first));
  } else {
    PACELINE_RETURN_IF_ERROR(shards.load_from_checkpoint(Version(order.version()), checkpoint));
  }
  return shards;
}

absl::StatusOr<KeptShards> KeptShards::take_up(const wire::ServerStart& order, const config::JobConfig& job,
                                               ServersCard* card, KeptMemory& left) {
  if (!can_outlive(job)) return absl::InvalidArgumentError("this optimizer's state ends with its process");
  KeptShards shards;
  shards.count_ = order.shard_count();
  PACELINE_RETURN_IF_ERROR(shards.add(order.shard(), order, job, card, &left, true));
  PACELINE_RETURN_IF_ERROR(shards.own().take_up());
  return shards;
}

absl::Status KeptShards::add(int index, const wire::ServerStart& order, const config::JobConfig& job,
                             ServersCard* card, KeptMemory* kept, bool take_up) {
  const bool own = index == order.shard();
  PACELINE_ASSIGN_OR_RETURN(ps::Layout part,
                            wire::part_from_wire(own ? order.part() : order.hosts(index).part()));
  std::int64_t offset = own ? order.part_offset() : 0;
  for (int before = 0; !own && before < index; ++before) {
    PACELINE_ASSIGN_OR_RETURN(const ps::Layout other, wire::part_from_wire(order.hosts(before).part()));
    offset += other.size();
  }
  std::optional<ps::WholeModel> whole;
  if (order.has_whole()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout layout, wire::from_wire(order.whole()));
    if (layout.size() != order.whole_floats() || offset < 0 || offset > layout.size() - part.size())
      return absl::InternalError("the coordinator sent a part that is not of its model");
    whole.emplace(std::move(layout), offset);
  }
  // Each worker and its successor, the evaluator and at most 64 hosts.
  static_assert(2 * config::kMostLiveDevices + 1 + 64 <= memory::WeightWriter::kSlots);
  // A copy has no reader, but a board has at least one.
  const int readers = own ? order.readers() + order.hosts_size() : 1;
  if (card != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(
        auto shard, card->make_shard(std::move(part), job, readers, order.card_holders(), server::kMostKept,
                                     identity_of(order)));
    kept_.push_back({index, offset, std::move(shard)});
    return absl::OkStatus();
  }
  const std::int64_t floats = ps::Shard::board_floats(part, job.look_ahead);
  const int most_kept = own ? server::kMostKept : 0;
  const auto make_board = [&]() -> absl::StatusOr<memory::WeightWriter> {
    if (!take_up) return memory::WeightWriter::create(floats, readers, most_kept);
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory left, kept->memory(KeptMemory::kBoard));
    return memory::WeightWriter::adopt(std::move(left), floats, readers, most_kept);
  };
  PACELINE_ASSIGN_OR_RETURN(memory::WeightWriter board, make_board());
  std::optional<ps::KeptState> state;
  const auto shape = [&] { return ps::KeptShape::of(part, job.optimizer.kind, threads_for(job)); };
  if (take_up) {
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory left, kept->memory(KeptMemory::kState));
    PACELINE_ASSIGN_OR_RETURN(state, ps::KeptState::adopt(std::move(left), shape(), identity_of(order)));
  } else if (kept != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(state, ps::KeptState::create(shape(), identity_of(order)));
    kept->put(KeptMemory::kBoard, board.memory());
    kept->put(KeptMemory::kState, state->memory());
  }
  kept_.push_back({index, offset,
                   std::make_unique<ps::Shard>(std::move(part), job.optimizer, std::move(board),
                                               threads_for(job), job.groups, whole, std::move(state))});
  return absl::OkStatus();
}

absl::Status KeptShards::begin_with(const FirstWeights& first) const {
  for (const Kept& one : kept_) {
    const auto begin = static_cast<std::size_t>(one.offset);
    const auto floats = static_cast<std::size_t>(one.shard->layout().size());
    if (!first.state.empty()) {
      ps::OptimizerState state{.streams = {}, .fractions = first.steps};
      // An empty part may begin at the end of the weights.
      for (std::size_t stream = 0; stream < first.state.size(); stream += first.weights.size()) {
        const std::span<const float> part = first.state.subspan(stream + begin, floats);
        state.streams.emplace_back(part.begin(), part.end());
      }
      PACELINE_RETURN_IF_ERROR(one.shard->restore_optimizer(std::move(state)));
    }
    PACELINE_RETURN_IF_ERROR(one.shard->start(Version(0), first.weights.subspan(begin, floats)));
  }
  return absl::OkStatus();
}

absl::Status KeptShards::load_from_checkpoint(Version version, store::CheckpointFiles& checkpoint) const {
  for (const Kept& one : kept_) {
    PACELINE_ASSIGN_OR_RETURN(auto saved,
                              store::load_shard(checkpoint, one.index + 1, count_, one.shard->layout()));
    PACELINE_RETURN_IF_ERROR(one.shard->restore_optimizer(std::move(saved.optimizer)));
    PACELINE_RETURN_IF_ERROR(one.shard->start(version, saved.weights));
  }
  return absl::OkStatus();
}

std::vector<ps::Shard*> KeptShards::all() const {
  std::vector<ps::Shard*> shards;
  for (const Kept& one : kept_) shards.push_back(one.shard.get());
  return shards;
}

void KeptShards::publish() const {
  for (const Kept& one : kept_) one.shard->publish();
}

absl::Status KeptShards::write(int index, Version version, store::CheckpointFiles& checkpoint) const {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.index == index; });
  if (found == kept_.end() || found->shard->version() != version)
    return absl::InternalError(fmt::format("version {} of shard {} is not here", version, index));
  const ps::Shard& shard = *found->shard;
  PACELINE_ASSIGN_OR_RETURN(const std::vector<float> weights, shard.read(shard.weights()));
  PACELINE_ASSIGN_OR_RETURN(const ps::OptimizerState state, shard.read_state());
  return store::write_shard(checkpoint, index + 1, count_, shard.layout(), weights, state);
}

}  // namespace paceline::server_process

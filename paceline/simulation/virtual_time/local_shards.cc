#include "paceline/simulation/virtual_time/local_shards.h"

#include <algorithm>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::virtual_time {

absl::StatusOr<LocalShards> LocalShards::create(const config::JobConfig& job, const ps::Layout& layout) {
  PACELINE_RETURN_IF_ERROR(ps::check_groups(layout, job.groups));
  PACELINE_ASSIGN_OR_RETURN(const auto parts, config::server_parts(job, layout));
  constexpr int kReaders = 1;
  constexpr int kKept = 1;
  constexpr int kThreads = 1;
  LocalShards shards;
  std::int64_t offset = 0;
  for (const ps::Layout& part : parts) {
    PACELINE_ASSIGN_OR_RETURN(
        auto board,
        memory::WeightWriter::create(ps::Shard::board_floats(part, job.look_ahead), kReaders, kKept));
    shards.shards_.push_back(std::make_unique<ps::Shard>(part, job.optimizer, std::move(board), kThreads,
                                                         job.groups, ps::WholeModel{layout, offset}));
    offset += part.size();
  }
  return shards;
}

absl::Status LocalShards::start(std::span<const float> weights, std::span<const float> state, double steps) {
  std::size_t offset = 0;
  for (const auto& shard : shards_) {
    const auto size = static_cast<std::size_t>(shard->layout().size());
    if (!state.empty()) {
      ps::OptimizerState first{.streams = {}, .fractions = steps};
      for (std::size_t begin = offset; begin < state.size(); begin += weights.size())
        first.streams.emplace_back(state.begin() + static_cast<std::ptrdiff_t>(begin),
                                   state.begin() + static_cast<std::ptrdiff_t>(begin + size));
      PACELINE_RETURN_IF_ERROR(shard->restore_optimizer(std::move(first)));
    }
    PACELINE_RETURN_IF_ERROR(shard->start(Version(0), weights.subspan(offset, size)));
    offset += size;
  }
  return absl::OkStatus();
}

absl::Status LocalShards::start(Version version, const std::string& checkpoint_dir) {
  const int count = static_cast<int>(shards_.size());
  for (int i = 0; i < count; ++i) {
    ps::Shard& shard = *shards_[static_cast<std::size_t>(i)];
    PACELINE_ASSIGN_OR_RETURN(auto saved, store::load_shard(checkpoint_dir, i + 1, count, shard.layout()));
    PACELINE_RETURN_IF_ERROR(shard.restore_optimizer(std::move(saved.optimizer)));
    PACELINE_RETURN_IF_ERROR(shard.start(version, saved.weights));
  }
  return absl::OkStatus();
}

absl::Status LocalShards::apply(const control::CommitRecord& record,
                                std::span<const float* const> gradients) {
  std::int64_t offset = 0;
  for (const auto& shard : shards_) {
    ps::Update update{.version = record.version,
                      .members = {},
                      .learning_rate = record.learning_rate,
                      .fraction = record.fraction,
                      .of_differences = record.of_differences};
    for (std::size_t i = 0; i < record.members.size(); ++i)
      update.members.push_back({gradients[i] + offset, record.members[i].weight, record.members[i].share});
    PACELINE_RETURN_IF_ERROR(shard->apply(update));
    offset += shard->layout().size();
  }
  return absl::OkStatus();
}

void LocalShards::copy_weights(std::span<float> out) const {
  for (const auto& shard : shards_) {
    const std::span<const float> weights = shard->weights();
    std::copy(weights.begin(), weights.end(), out.begin());
    out = out.subspan(weights.size());
  }
}

void LocalShards::copy_weights_ahead(float reach, std::span<float> out) const {
  for (const auto& shard : shards_) {
    const std::span<const float> weights = shard->weights();
    ps::copy_constants(shard->layout().runs(), weights, out);
    ps::look_ahead(shard->layout().moving(), weights, shard->direction(), reach, out.first(weights.size()));
    out = out.subspan(weights.size());
  }
}

bool LocalShards::finite() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->finite(); });
}

absl::Status LocalShards::write(const std::string& dir) const {
  const int count = static_cast<int>(shards_.size());
  for (int i = 0; i < count; ++i) {
    const ps::Shard& shard = *shards_[static_cast<std::size_t>(i)];
    PACELINE_RETURN_IF_ERROR(
        store::write_shard(dir, i + 1, count, shard.layout(), shard.weights(), shard.optimizer_state()));
  }
  return absl::OkStatus();
}

}  // namespace paceline::virtual_time

#include "paceline/decisions/coordinator/emergency_checkpoint.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::coordinator {

EmergencyCheckpoint::EmergencyCheckpoint(ServerShards kept, IdVector<ServerId, bool> here, Version version,
                                         std::string dir, Tell tell)
    : kept_(std::move(kept)),
      here_(std::move(here)),
      version_(version),
      dir_(std::move(dir)),
      tell_(std::move(tell)),
      shards_(kept_.size()) {}

absl::Status EmergencyCheckpoint::begin() {
  for (const ShardId shard : shards_.ids()) PACELINE_RETURN_IF_ERROR(assign(shard));
  return absl::OkStatus();
}

absl::Status EmergencyCheckpoint::assign(ShardId shard) {
  std::optional<ServerId>& writer = shards_[shard].writer;
  writer.reset();
  for (std::size_t copy = 0; copy < kept_[ServerId(0)].size() && !writer; ++copy) {
    for (const ServerId server : kept_.ids()) {
      if (here_[server] && kept_[server][copy] == shard) writer = server;
    }
  }
  if (!writer) return absl::UnavailableError(fmt::format("no copy of shard {} is left", shard));
  tell_(*writer, WriteCopy{version_, shard, dir_});
  return absl::OkStatus();
}

absl::Status EmergencyCheckpoint::lose(ServerId server) {
  here_[server] = false;
  for (const ShardId shard : shards_.ids()) {
    if (shards_[shard].writer == server && !shards_[shard].written) PACELINE_RETURN_IF_ERROR(assign(shard));
  }
  return absl::OkStatus();
}

absl::Status EmergencyCheckpoint::written(ServerId server, const CopyWritten& message) {
  if (!here_[server]) return absl::OkStatus();  // others write for it
  const ShardId shard = message.shard;
  if (!shards_.has(shard) || shards_[shard].writer != server)
    return absl::InvalidArgumentError(fmt::format("server {} wrote shard {}", server, shard));
  if (!message.error.empty()) {
    const absl::Status others = lose(server);
    if (others.ok()) return others;
    return absl::UnavailableError(fmt::format("{}; {}", message.error, std::string(others.message())));
  }
  shards_[shard].written = true;
  return absl::OkStatus();
}

bool EmergencyCheckpoint::done() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const Shard& shard) { return shard.written; });
}

}  // namespace paceline::coordinator

#include "paceline/coordinator/emergency_checkpoint.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::coordinator {

EmergencyCheckpoint::EmergencyCheckpoint(std::vector<std::vector<int>> kept, std::vector<bool> here,
                                         Version version, std::string dir, Tell tell)
    : kept_(std::move(kept)),
      here_(std::move(here)),
      version_(version),
      dir_(std::move(dir)),
      tell_(std::move(tell)),
      shards_(kept_.size()) {}

absl::Status EmergencyCheckpoint::begin() {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) PACELINE_RETURN_IF_ERROR(assign(shard));
  return absl::OkStatus();
}

absl::Status EmergencyCheckpoint::assign(std::size_t shard) {
  std::size_t& writer = shards_[shard].writer;
  writer = kNobody;
  for (std::size_t copy = 0; copy < kept_.front().size() && writer == kNobody; ++copy) {
    for (std::size_t server = 0; server < kept_.size(); ++server) {
      if (here_[server] && kept_[server][copy] == static_cast<int>(shard)) writer = server;
    }
  }
  if (writer == kNobody) return absl::UnavailableError(fmt::format("no copy of shard {} is left", shard));
  wire::ServerOrder order;
  order.mutable_write_copy()->set_version(version_.value());
  order.mutable_write_copy()->set_shard(static_cast<std::int32_t>(shard));
  order.mutable_write_copy()->set_dir(dir_);
  tell_(writer, order);
  return absl::OkStatus();
}

absl::Status EmergencyCheckpoint::lose(std::size_t server) {
  here_[server] = false;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_[shard].writer == server && !shards_[shard].written) PACELINE_RETURN_IF_ERROR(assign(shard));
  }
  return absl::OkStatus();
}

absl::Status EmergencyCheckpoint::written(std::size_t server, const wire::CopyWritten& message) {
  if (!here_[server]) return absl::OkStatus();  // others write for it
  const auto shard = static_cast<std::size_t>(message.shard());
  if (shard >= shards_.size() || shards_[shard].writer != server)
    return absl::InvalidArgumentError(fmt::format("server {} wrote shard {}", server, message.shard()));
  if (!message.error().empty()) {
    const absl::Status others = lose(server);
    if (others.ok()) return others;
    return absl::UnavailableError(fmt::format("{}; {}", message.error(), std::string(others.message())));
  }
  shards_[shard].written = true;
  return absl::OkStatus();
}

bool EmergencyCheckpoint::done() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const Shard& shard) { return shard.written; });
}

}  // namespace paceline::coordinator

#include "paceline/processes/server_process/host_mirror.h"

#include <span>

#include "paceline/base/status_macros.h"
#include "paceline/processes/server/shards.h"

namespace paceline::server_process {

absl::StatusOr<HostMirror> HostMirror::create(const ps::Shard& shard, int readers, KeptMemory* kept) {
  const auto floats = static_cast<std::int64_t>(shard.board().latest().size());
  if (kept != nullptr && kept->find(KeptMemory::kMirror)) {
    PACELINE_ASSIGN_OR_RETURN(ipc::SharedMemory left, kept->memory(KeptMemory::kMirror));
    const auto version = memory::WeightWriter::version_in(left);
    PACELINE_ASSIGN_OR_RETURN(memory::WeightWriter board,
                              memory::WeightWriter::adopt(std::move(left), floats, readers, server::kMostKept,
                                                          nullptr, /*may_be_empty=*/true));
    HostMirror mirror(std::move(board));
    if (version.ok()) mirror.version_ = *version;
    return mirror;
  }
  PACELINE_ASSIGN_OR_RETURN(memory::WeightWriter board,
                            memory::WeightWriter::create(floats, readers, server::kMostKept));
  if (kept != nullptr) kept->put(KeptMemory::kMirror, board.memory());
  return HostMirror(std::move(board));
}

absl::Status HostMirror::follow(const ps::Shard& shard) {
  if (version_ == shard.version()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(shard.read_into(shard.board().latest(), board_.next()));
  board_.publish(shard.version());
  version_ = shard.version();
  return absl::OkStatus();
}

absl::Status HostMirror::keep(const ps::Shard& shard, Version version) {
  if (version == shard.version()) {
    PACELINE_RETURN_IF_ERROR(follow(shard));
    return board_.keep(version);
  }
  // An earlier server kept it. The buffer may have another version by now.
  if (board_.keep_again(version).ok()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(shard.read_into(shard.board().kept(version), board_.next()));
  return board_.keep_taken(version);
}

}  // namespace paceline::server_process

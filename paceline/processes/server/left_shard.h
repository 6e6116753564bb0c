// The memory of a killed server's shard, which the next server takes up.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/transport/ipc/descriptor_keep.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::server {

struct LeftShard {
  ipc::SharedMemory board, state;
  wire::KeptShard about;

  // Nothing if the keep has no shard, or one that this program did not write.
  static std::optional<LeftShard> look(const ipc::DescriptorKeep& keep);
  // Puts a shard's memory into the keep. Errors: those of the keep.
  static absl::Status keep(ipc::DescriptorKeep& keep, const ipc::SharedMemory& board,
                           const ipc::SharedMemory& state, const wire::ServerStart& order);
};

// A number for a shard, its run and its attempt.
std::uint64_t identity_of(const wire::ServerStart& order);

}  // namespace paceline::server

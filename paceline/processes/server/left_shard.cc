#include "paceline/processes/server/left_shard.h"

#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/parameters/memory/weight_board.h"

namespace paceline::server {

namespace {

// A note of fixed length beside the shard's memory: length, then a wire::KeptShard.
constexpr std::size_t kNoteBytes = ipc::kPageBytes;

}  // namespace

std::optional<LeftShard> LeftShard::look(const ipc::DescriptorKeep& keep) {
  std::vector<FileDescriptor> found = keep.look();
  if (found.size() != 3) return std::nullopt;
  auto note = ipc::SharedMemory::adopt(std::move(found[0]));
  auto board = ipc::SharedMemory::adopt(std::move(found[1]));
  auto state = ipc::SharedMemory::adopt(std::move(found[2]));
  if (!note.ok() || !board.ok() || !state.ok()) return std::nullopt;
  const auto text = note->map(0, kNoteBytes, false);
  const auto version = memory::WeightWriter::version_in(*board);
  if (!text.ok() || !version.ok()) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, text->data(), sizeof(length));
  wire::KeptShard about;
  if (length > kNoteBytes - sizeof(length) ||
      !about.ParseFromArray(text->data() + sizeof(length), static_cast<int>(length)))
    return std::nullopt;
  about.set_version(version->value());
  return LeftShard{*std::move(board), *std::move(state), std::move(about)};
}

absl::Status LeftShard::keep(ipc::DescriptorKeep& keep, const ipc::SharedMemory& board,
                             const ipc::SharedMemory& state, const wire::ServerStart& order) {
  wire::KeptShard about;
  about.set_attempt(order.attempt());
  about.set_shard(order.shard());
  about.set_shard_count(order.shard_count());
  const std::string text = about.SerializeAsString();
  const auto length = static_cast<std::uint32_t>(text.size());
  if (length > kNoteBytes - sizeof(length))
    return absl::InternalError(fmt::format("the name of the attempt has {} bytes", length));
  PACELINE_ASSIGN_OR_RETURN(const auto note, ipc::SharedMemory::create("paceline-note", kNoteBytes));
  PACELINE_ASSIGN_OR_RETURN(const auto mapping, note.map(0, kNoteBytes, true));
  std::memcpy(mapping.data(), &length, sizeof(length));
  std::memcpy(mapping.data() + sizeof(length), text.data(), text.size());
  return keep.keep({note.descriptor(), board.descriptor(), state.descriptor()});
}

std::uint64_t identity_of(const wire::ServerStart& order) {
  return text_hash(fmt::format("{}/{}/{}/{}/{}", order.attempt(), order.shard(), order.shard_count(),
                               order.part().SerializeAsString(), order.job_toml()));
}

}  // namespace paceline::server

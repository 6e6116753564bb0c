#include "paceline/cli/board_readers.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/rpc/wire.h"

namespace paceline::cli {

absl::StatusOr<BoardReaders> BoardReaders::open(const rpc::wire::Boards& boards, const ps::Layout& layout) {
  std::vector<Shard> shards;
  ps::Layout whole;
  for (const rpc::wire::Board& board : boards.boards()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout part, rpc::from_wire(board.part()));
    for (const ps::TensorSpec& tensor : part.tensors()) whole.add(tensor.name, tensor.kind, tensor.shape);
    PACELINE_ASSIGN_OR_RETURN(auto reader,
                              transport::WeightReader::open(board.path(), part.size(), boards.reader()));
    shards.push_back({std::move(part), std::move(reader)});
  }
  if (!(whole == layout))
    return absl::InvalidArgumentError("the shards hold another model than this process built");
  return BoardReaders(std::move(shards));
}

template <class PinOne>
std::optional<BoardReaders::Pinned> BoardReaders::pin_all(PinOne pin_one) {
  Pinned all;
  bool first = true;
  for (Shard& shard : shards_) {
    const auto pinned = pin_one(shard.reader);
    if (!pinned) {
      unpin();
      return std::nullopt;
    }
    all.version = std::exchange(first, false) ? pinned->version : std::min(all.version, pinned->version);
    for (const ps::TensorSpec& tensor : shard.part.tensors())
      all.tensors.push_back(pinned->weights.data() + tensor.offset);
  }
  return all;
}

std::optional<BoardReaders::Pinned> BoardReaders::pin(Version version, std::chrono::nanoseconds timeout) {
  return pin_all([&](transport::WeightReader& reader) { return reader.pin(version, timeout); });
}

std::optional<BoardReaders::Pinned> BoardReaders::pin_exactly(Version version) {
  return pin_all([&](transport::WeightReader& reader) { return reader.pin_exactly(version); });
}

void BoardReaders::unpin() {
  for (Shard& shard : shards_) shard.reader.unpin();
}

}  // namespace paceline::cli

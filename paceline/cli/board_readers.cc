#include "paceline/cli/board_readers.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/ps/look_ahead.h"
#include "paceline/ps/shard.h"
#include "paceline/rpc/wire.h"

namespace paceline::cli {

absl::StatusOr<BoardReaders> BoardReaders::open(const rpc::wire::Boards& boards, const ps::Layout& layout,
                                                bool look_ahead) {
  std::vector<Shard> shards;
  ps::Layout whole;
  for (const rpc::wire::Board& board : boards.boards()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout part, rpc::from_wire(board.part()));
    for (const ps::TensorSpec& tensor : part.tensors()) whole.add(tensor.name, tensor.kind, tensor.shape);
    PACELINE_ASSIGN_OR_RETURN(
        auto reader, transport::WeightReader::open(board.path(), ps::Shard::board_floats(part, look_ahead),
                                                   boards.reader()));
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
    const auto pinned = pin_one(shard);
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
  return pin_all([&](Shard& shard) { return shard.reader.pin(version, timeout); });
}

std::optional<BoardReaders::Pinned> BoardReaders::pull_ahead(Version version, float reach,
                                                             std::chrono::nanoseconds timeout) {
  std::size_t whole = 0;
  for (const Shard& shard : shards_) whole += static_cast<std::size_t>(shard.part.size());
  ahead_.resize(whole);
  std::span<float> rest = ahead_;
  return pin_all([&](Shard& shard) {
    auto pinned = shard.reader.pin(version, timeout);
    if (!pinned) return pinned;
    const auto size = static_cast<std::size_t>(shard.part.size());
    const std::span<float> out = rest.first(size);
    ps::look_ahead(pinned->weights.first(size), pinned->weights.subspan(size), reach, out);
    shard.reader.unpin();
    rest = rest.subspan(size);
    pinned->weights = out;
    return pinned;
  });
}

std::optional<BoardReaders::Pinned> BoardReaders::pin_exactly(Version version) {
  return pin_all([&](Shard& shard) { return shard.reader.pin_exactly(version); });
}

void BoardReaders::unpin() {
  for (Shard& shard : shards_) shard.reader.unpin();
}

bool BoardReaders::published(Version version) const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [&](const Shard& shard) { return shard.reader.version() >= version; });
}

}  // namespace paceline::cli

#include "paceline/exchange/mirror.h"

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::exchange {

absl::StatusOr<std::optional<std::span<float>>> Mirror::room(const Header& header) {
  const bool this_one =
      coming_ && coming_->header.kind == header.kind && coming_->header.version == header.version;
  if (coming_ && !this_one) return std::nullopt;
  if (!coming_) {
    const bool old = header.kind == Kind::kWeights && published_ && header.version <= board_.version();
    if (old)
      return absl::DataLossError(
          fmt::format("weights of version {} after {}", header.version, board_.version()));
    const std::size_t blocks = block_count(floats_);
    coming_.emplace(Coming{header, board_.next(), std::vector<bool>(blocks, false), blocks});
  }
  const std::size_t block = block_index(header.begin);
  if (coming_->offered[block])
    return absl::DataLossError(
        fmt::format("weights of version {} from {} on twice", header.version, header.begin));
  coming_->offered[block] = true;
  return block_at(coming_->memory, header.begin);
}

absl::StatusOr<std::optional<Header>> Mirror::arrived() {
  PACELINE_CHECK(coming_ && coming_->missing > 0, "a block that is not on its way");
  if (--coming_->missing > 0) return std::nullopt;
  const Header header = coming_->header;
  coming_.reset();
  if (header.kind == Kind::kWeights) {
    board_.publish(header.version);
    published_ = true;
  } else {
    PACELINE_RETURN_IF_ERROR(board_.keep_taken(header.version));
  }
  return header;
}

}  // namespace paceline::exchange

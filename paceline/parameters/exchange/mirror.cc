#include "paceline/parameters/exchange/mirror.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::exchange {

namespace {

// Floats: 64 MB, which take less than a tenth of a second.
constexpr std::int64_t kFilledAtOnce = std::int64_t{1} << 24;

}  // namespace

absl::StatusOr<std::optional<std::span<float>>> Mirror::room(const Header& header) {
  const bool this_one =
      coming_ && coming_->header.kind == header.kind && coming_->header.version == header.version;
  if (coming_ && !this_one) return std::nullopt;
  if (!coming_) {
    if (is_over(header))
      return absl::DataLossError(
          fmt::format("weights of version {} after {}", header.version, board_.version()));
    if (!begin(header)) return std::nullopt;
  }
  const std::size_t block = block_index(floats_, header.begin);
  if (coming_->offered[block])
    return absl::DataLossError(
        fmt::format("weights of version {} from {} on twice", header.version, header.begin));
  coming_->offered[block] = true;
  return block_at(coming_->memory, header.begin);
}

bool Mirror::begin(const Header& header) {
  if (!filling_) filling_.emplace(Filling{board_.next()});
  if (!fill_in(*filling_)) return false;
  const std::span<float> memory = filling_->memory;
  filling_.reset();
  std::vector<bool> offered(block_count(floats_), false);
  if (!whole_.empty()) {
    for (std::size_t block = 0; block < offered.size(); ++block) offered[block] = !sent_again(moving_, block);
  }
  const auto missing = static_cast<std::size_t>(std::count(offered.begin(), offered.end(), false));
  coming_.emplace(Coming{header, memory, std::move(offered), missing});
  return true;
}

bool Mirror::fill_in(Filling& filling) {
  if (whole_.empty() || std::find(whole_.begin(), whole_.end(), filling.memory.data()) != whole_.end())
    return true;
  const std::span<const float> source(whole_.front(), filling.memory.size());
  std::int64_t left = kFilledAtOnce;
  for (; filling.block < moving_.size(); ++filling.block) {
    if (sent_again(moving_, filling.block)) continue;
    if (left <= 0) return false;
    const std::int64_t begin = block_begin(floats_, filling.block);
    const std::span<const float> from = block_at(source, begin);
    std::copy(from.begin(), from.end(), block_at(filling.memory, begin).begin());
    left -= std::ssize(from);
  }
  whole_.push_back(filling.memory.data());
  return true;
}

absl::StatusOr<std::optional<Header>> Mirror::arrived() {
  PACELINE_CHECK(coming_ && coming_->missing > 0, "a block that is not on its way");
  if (--coming_->missing > 0) return std::nullopt;
  const Header header = coming_->header;
  if (whole_.empty()) whole_.push_back(coming_->memory.data());
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

// The messages between servers of different hosts, besides the bulk data: the header of a message with floats
// of one block as its payload. Headers are read from bytes that another process sent.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"

namespace paceline::exchange {

// Floats go in blocks, from 0 on; only the last one is shorter. With many blocks a receiver works on those
// that are there while the rest is under way: in b blocks, a sum that goes over h hosts takes 1 + (h - 1) / b
// times as long as over one link. With few blocks, a block costs little besides its bytes.
inline constexpr std::int64_t kLeastBlock = 32 * 1024, kMostBlock = 256 * 1024;
inline constexpr std::int64_t kWantedBlocks = 16;

// The size of a block, if there are `floats` floats: a shard's gradients, or a board's weights.
constexpr std::int64_t block_floats(std::int64_t floats) {
  constexpr std::int64_t kStep = kWantedBlocks * kLeastBlock;
  return std::clamp((floats + kStep - 1) / kStep * kLeastBlock, kLeastBlock, kMostBlock);
}

enum class Kind : std::uint8_t {
  kSum = 1,   // the sum of the sender's gradients, for a shard that the receiver keeps
  kWeights,   // weights of the sender's shard, to be published
  kKept,      // weights to be kept beside the published ones
  kKeptHere,  // the receiver's shard is kept in that version at the sender; no payload
  kSquares,   // the squared norm of a commit's averaged gradient over the sender's shard; no payload
  kEarly,     // like kSum, for a gradient that is in no commit yet; its number stands in `version`
};

struct Header {
  Kind kind = Kind::kSum;
  Version version{};
  std::int64_t begin = 0;  // the first float of the block
  int shard = 0;           // the payload's shard
  double squares = 0;
  std::uint64_t pass_on = 0;  // for weights: a bit for each host that gets them from the receiver
  friend bool operator==(const Header&, const Header&) = default;
};

inline constexpr std::size_t kHeaderBytes = 32;

std::array<std::byte, kHeaderBytes> write_header(const Header& header);
// Errors: DataLoss.
absl::StatusOr<Header> read_header(std::span<const std::byte> bytes);

// The number of blocks that begin before `end`, if there are `floats` floats.
constexpr std::size_t blocks_before(std::int64_t floats, std::int64_t end) {
  const std::int64_t block = block_floats(floats);
  return static_cast<std::size_t>((end + block - 1) / block);
}
constexpr std::size_t block_count(std::int64_t floats) { return blocks_before(floats, floats); }
// The number of the block with the float `at`, if there are `floats` floats; and the first float of a block.
constexpr std::size_t block_index(std::int64_t floats, std::int64_t at) {
  return static_cast<std::size_t>(at / block_floats(floats));
}
constexpr std::int64_t block_begin(std::int64_t floats, std::size_t block) {
  return static_cast<std::int64_t>(block) * block_floats(floats);
}
// The block of `floats` that begins there.
template <class Float>
std::span<Float> block_at(std::span<Float> floats, std::int64_t begin) {
  const auto from = static_cast<std::size_t>(begin);
  const auto block = static_cast<std::size_t>(block_floats(std::ssize(floats)));
  return floats.subspan(from, std::min(block, floats.size() - from));
}
// Whether a version that is not the first to go over a link has this block. `moving`: for each block, whether
// versions differ in it. If none moves, the first block goes nevertheless, to tell that the version is there.
inline bool sent_again(const std::vector<bool>& moving, std::size_t block) {
  return moving[block] || (block == 0 && std::find(moving.begin(), moving.end(), true) == moving.end());
}
// Errors: DataLoss if a payload of `bytes` bytes is not the block that begins there, or there should be none.
absl::Status check_payload(const Header& header, std::size_t bytes, std::int64_t floats);

}  // namespace paceline::exchange

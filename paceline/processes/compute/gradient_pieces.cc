#include "paceline/processes/compute/gradient_pieces.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/transport/collective/weighted_sum.h"

namespace paceline::compute {

namespace {

// So large that a message costs little beside its bytes, and so many that the link has something to carry
// while the first device still computes.
constexpr std::int64_t kPieceFloats = 256 * 1024;
constexpr std::int64_t kSlots = 16;
using Begin = std::int64_t;

std::size_t bytes_of(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

}  // namespace

channels::ChannelSizes gradient_channel(std::int64_t floats) {
  const std::size_t bytes = sizeof(Begin) + bytes_of(std::min(floats, kPieceFloats));
  return {.from_creator = {.slots = 1, .slot_bytes = 0},
          .from_opener = {.slots = kSlots, .slot_bytes = static_cast<std::int64_t>(bytes)}};
}

std::vector<ps::FloatRange> pieces_of(std::span<const ps::FloatRange> ranges) {
  std::vector<ps::FloatRange> pieces;
  for (const ps::FloatRange& range : ranges) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += kPieceFloats)
      pieces.push_back({begin, std::min(range.end, begin + kPieceFloats)});
  }
  return pieces;
}

std::size_t write_piece(const ps::FloatRange& piece, std::span<const float> gradient,
                        std::span<std::byte> room) {
  const std::size_t bytes = bytes_of(piece.end - piece.begin);
  PACELINE_CHECK(sizeof(Begin) + bytes <= room.size(), "{} bytes in room for {}", bytes, room.size());
  std::memcpy(room.data(), &piece.begin, sizeof(Begin));
  std::memcpy(room.data() + sizeof(Begin), gradient.data() + piece.begin, bytes);
  return sizeof(Begin) + bytes;
}

absl::Status read_piece(std::span<const std::byte> message, Piece how, std::span<float> gradient) {
  Begin begin = -1;
  if (message.size() >= sizeof begin) std::memcpy(&begin, message.data(), sizeof begin);
  const auto size = static_cast<std::int64_t>(gradient.size());
  const std::size_t bytes = message.size() - std::min(message.size(), sizeof begin);
  if (begin < 0 || begin > size || bytes % sizeof(float) != 0 || bytes > bytes_of(size - begin)) {
    return absl::DataLossError(fmt::format(
        "a stage sent {} bytes that are no part of a gradient of {} floats", message.size(), size));
  }
  float* to = gradient.data() + begin;
  const std::byte* from = message.data() + sizeof begin;  // at a multiple of 8 bytes: slots are aligned
  if (how == Piece::kPut) {
    std::memcpy(to, from, bytes);
  } else {
    collective::accumulate(to, reinterpret_cast<const float*>(from), 1.0F,
                           static_cast<std::int64_t>(bytes / sizeof(float)));
  }
  return absl::OkStatus();
}

}  // namespace paceline::compute

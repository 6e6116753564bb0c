#include "paceline/parameters/exchange/message.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace paceline::exchange {

namespace {

// The rest of the first word is the shard.
constexpr int kKindBits = 32;

void put(std::byte* to, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

std::int64_t get(const std::byte* from) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::array<std::byte, kHeaderBytes> write_header(const Header& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  put(bytes.data(), static_cast<std::uint64_t>(header.kind) | static_cast<std::uint64_t>(header.shard)
                                                                  << kKindBits);
  put(bytes.data() + 8, static_cast<std::uint64_t>(header.version.value()));
  put(bytes.data() + 16, static_cast<std::uint64_t>(header.begin));
  put(bytes.data() + 24,
      header.kind == Kind::kWeights ? header.pass_on : std::bit_cast<std::uint64_t>(header.squares));
  return bytes;
}

absl::StatusOr<Header> read_header(std::span<const std::byte> bytes) {
  if (bytes.size() != kHeaderBytes)
    return absl::DataLossError(fmt::format("a message with a header of {} bytes", bytes.size()));
  const std::int64_t first = get(bytes.data());
  const std::int64_t kind = first & ((std::int64_t{1} << kKindBits) - 1);
  const std::int64_t shard = first >> kKindBits;
  const std::int64_t version = get(bytes.data() + 8);
  const std::int64_t begin = get(bytes.data() + 16);
  const auto last = static_cast<std::uint64_t>(get(bytes.data() + 24));
  const bool known =
      kind >= static_cast<std::int64_t>(Kind::kSum) && kind <= static_cast<std::int64_t>(Kind::kEarly);
  if (!known || shard < 0 || version < 0 || begin < 0 || begin % kLeastBlock != 0)
    return absl::DataLossError(
        fmt::format("a message of kind {}, shard {}, version {}, from {}", kind, shard, version, begin));
  Header header{static_cast<Kind>(kind), Version(version), begin, static_cast<int>(shard)};
  if (header.kind == Kind::kWeights) {
    header.pass_on = last;
  } else {
    header.squares = std::bit_cast<double>(last);  // NaN and infinity are possible norms of a gradient
  }
  return header;
}

absl::Status check_payload(const Header& header, std::size_t bytes, std::int64_t floats) {
  if (header.kind == Kind::kKeptHere || header.kind == Kind::kSquares) {
    if (bytes == 0) return absl::OkStatus();
    return absl::DataLossError(fmt::format("{} bytes with a word that has none", bytes));
  }
  const bool fits = header.begin < floats && header.begin % block_floats(floats) == 0 &&
                    bytes == static_cast<std::size_t>(std::min(block_floats(floats), floats - header.begin)) *
                                 sizeof(float);
  if (fits) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{} bytes from float {} on, of {} floats", bytes, header.begin, floats));
}

}  // namespace paceline::exchange

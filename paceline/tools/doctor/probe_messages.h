// The messages between the two ends of a probe: a kind and a number in a link's header. For link_probe.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace paceline::doctor {

enum class ProbeKind : std::uint8_t {
  kPing,  // answered with the same
  kData,  // a block of a transfer of `number` bytes
  kGot,   // all of a transfer of `number` bytes is here
  kGive,  // send a transfer of `number` bytes
  kEnd,
};

struct ProbeHeader {
  ProbeKind kind = ProbeKind::kPing;
  std::int64_t number = 0;
};

using ProbeBytes = std::array<std::byte, 9>;

inline ProbeBytes write_probe(const ProbeHeader& header) {
  ProbeBytes bytes{std::byte(header.kind)};
  std::memcpy(&bytes[1], &header.number, sizeof header.number);
  return bytes;
}

// Nothing if the bytes are none.
inline std::optional<ProbeHeader> read_probe(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(ProbeBytes) || bytes[0] > std::byte(ProbeKind::kEnd)) return std::nullopt;
  ProbeHeader header{static_cast<ProbeKind>(bytes[0])};
  std::memcpy(&header.number, &bytes[1], sizeof header.number);
  return header;
}

}  // namespace paceline::doctor

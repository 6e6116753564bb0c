// A short name for a long text, the same on every machine: FNV-1a of 64 bits. Against chance, not against
// malice.
#pragma once

#include <cstdint>
#include <string_view>

namespace paceline {

inline std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

}  // namespace paceline

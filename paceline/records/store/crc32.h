// The CRC-32 of bytes that come in pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include <zlib.h>

namespace paceline::store {

// `before`: the CRC-32 of the pieces before; 0 at first.
inline std::uint32_t crc32_after(const void* bytes, std::size_t count, std::uint32_t before) {
  // zlib takes a null pointer, which an empty vector may have, for a request to start over.
  if (count == 0) return before;
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(bytes), count));
}

}  // namespace paceline::store

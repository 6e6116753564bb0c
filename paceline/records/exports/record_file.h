// The framing of TensorFlow's record files: length, its checksum, the bytes, their checksum; all
// little-endian. The checksums are masked CRC-32C (Castagnoli), as TensorFlow writes them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::exports {

std::uint32_t crc32c(std::string_view bytes);

std::string framed(std::string_view record);

}  // namespace paceline::exports

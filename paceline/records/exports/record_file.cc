#include "paceline/records/exports/record_file.h"

#include <array>

namespace paceline::exports {

namespace {

constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[i] = crc;
  }
  return table;
}

// Stored checksums are masked, because the CRC of bytes that contain a CRC of themselves is a bad checksum.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((number >> (8 * i)) & 0xff);
  return text;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string framed(std::string_view record) {
  const std::string length = little_endian(record.size(), 8);
  std::string text = length + little_endian(masked(crc32c(length)), 4);
  text += record;
  return text + little_endian(masked(crc32c(record)), 4);
}

}  // namespace paceline::exports

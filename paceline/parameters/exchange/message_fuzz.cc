// Any bytes as the header of a message between servers, for a shard of some size: an accepted header names a
// block within the shard, and has the same bytes when written again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/parameters/exchange/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::exchange;
  // The shard's size in floats, and the payload's in bytes.
  std::uint32_t numbers[2]{};
  if (size < sizeof numbers) return 0;
  std::memcpy(numbers, data, sizeof numbers);
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + sizeof numbers, size - sizeof numbers);
  const auto header = read_header(bytes);
  if (!header.ok()) return 0;
  const auto written = write_header(*header);
  PACELINE_CHECK(std::equal(written.begin(), written.end(), bytes.begin(), bytes.end()),
                 "other bytes when written again");
  std::vector<float> shard(numbers[0] % (64 * kLeastBlock));
  const std::int64_t floats = std::ssize(shard);
  if (!check_payload(*header, numbers[1], floats).ok()) return 0;
  if (header->kind == Kind::kKeptHere || header->kind == Kind::kSquares) {
    PACELINE_CHECK(numbers[1] == 0, "{} bytes that nobody receives", numbers[1]);
    return 0;
  }
  const std::span block = block_at(std::span(shard), header->begin);
  const std::size_t index = block_index(floats, header->begin);
  PACELINE_CHECK(block.size_bytes() == numbers[1] && index < block_count(floats) &&
                     block_begin(floats, index) == header->begin,
                 "a block of {} bytes for {}", block.size_bytes(), numbers[1]);
  std::memset(block.data(), 1, block.size_bytes());
  return 0;
}

#include "paceline/parameters/exchange/message.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::exchange {
namespace {

TEST(Message, AHeaderComesBack) {
  for (const Header& header :
       {Header{Kind::kSum, Version(1), 0, 3}, Header{Kind::kKept, Version(1), kLeastBlock},
        Header{.kind = Kind::kWeights, .version = Version(2), .begin = 0, .shard = 1, .pass_on = ~0ULL},
        Header{Kind::kKeptHere, Version(INT64_MAX), 0}, Header{Kind::kSquares, Version(7), 0, 0, 1.5e300},
        Header{Kind::kEarly, Version(1), kLeastBlock, 3}}) {
    const auto bytes = write_header(header);
    const auto read = read_header(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, header);
  }
}

TEST(Message, RefusesBytesThatAreNoHeader) {
  const auto bytes = write_header({Kind::kSum, Version(1), 0});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(read_header(std::span(bytes).first(length)).ok()) << length;
  const auto with = [&](std::size_t at, int value) {
    auto changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return read_header(changed).ok();
  };
  EXPECT_FALSE(with(0, 0));  // no kind
  EXPECT_FALSE(with(0, 7));
  EXPECT_FALSE(with(7, 255));   // a negative shard
  EXPECT_FALSE(with(15, 255));  // a negative version
  EXPECT_FALSE(with(16, 1));    // between two blocks
  EXPECT_FALSE(with(23, 255));  // before the first
}

TEST(Message, APayloadIsOneBlock) {
  constexpr std::int64_t kFloats = kLeastBlock + 3;
  EXPECT_TRUE(check_payload({Kind::kSum, Version(1), 0}, kLeastBlock * 4, kFloats).ok());
  EXPECT_TRUE(check_payload({Kind::kSum, Version(1), kLeastBlock}, 12, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), 0}, 12, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), kLeastBlock}, 13, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), 2 * kLeastBlock}, 0, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), 0}, 0, 0).ok());
  // This block begins between two blocks of a larger shard.
  constexpr std::int64_t kLarge = 2 * kWantedBlocks * kLeastBlock;
  static_assert(block_floats(kLarge) == 2 * kLeastBlock);
  EXPECT_TRUE(check_payload({Kind::kSum, Version(1), 2 * kLeastBlock}, 2 * kLeastBlock * 4, kLarge).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), kLeastBlock}, 2 * kLeastBlock * 4, kLarge).ok());
}

// There are never more blocks than wanted, unless each has the largest size.
TEST(Message, BlocksCoverEverySize) {
  for (std::int64_t floats = 1; floats < 40 * kWantedBlocks * kLeastBlock; floats += 99'991) {
    const std::int64_t block = block_floats(floats);
    ASSERT_TRUE(block % kLeastBlock == 0 && kLeastBlock <= block && block <= kMostBlock) << floats;
    const std::size_t count = block_count(floats);
    EXPECT_LT(block_begin(floats, count - 1), floats);
    EXPECT_GE(block_begin(floats, count), floats);
    EXPECT_EQ(block_index(floats, floats - 1), count - 1);
    EXPECT_EQ(block_index(floats, block_begin(floats, count - 1)), count - 1);
    EXPECT_TRUE(block == kMostBlock || count <= static_cast<std::size_t>(kWantedBlocks)) << floats;
  }
}

TEST(Message, WordsHaveNoPayload) {
  for (const Kind kind : {Kind::kKeptHere, Kind::kSquares}) {
    EXPECT_TRUE(check_payload({kind, Version(1), 0}, 0, kLeastBlock).ok());
    EXPECT_FALSE(check_payload({kind, Version(1), 0}, 4, kLeastBlock).ok());
    EXPECT_FALSE(check_payload({kind, Version(1), 0}, kLeastBlock * 4, kLeastBlock).ok());
  }
}

}  // namespace
}  // namespace paceline::exchange

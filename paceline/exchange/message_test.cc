#include "paceline/exchange/message.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::exchange {
namespace {

TEST(Message, AHeaderComesBack) {
  for (const Header& header :
       {Header{Kind::kSum, Version(1), 0, 3}, Header{Kind::kKept, Version(1), kBlockFloats},
        Header{.kind = Kind::kWeights, .version = Version(2), .begin = 0, .shard = 1, .pass_on = ~0ULL},
        Header{Kind::kKeptHere, Version(INT64_MAX), 0}, Header{Kind::kSquares, Version(7), 0, 0, 1.5e300}}) {
    const auto bytes = write_header(header);
    const auto read = read_header(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, header);
  }
}

TEST(Message, WhatIsNoHeaderIsRefused) {
  const auto bytes = write_header({Kind::kSum, Version(1), 0});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(read_header(std::span(bytes).first(length)).ok()) << length;
  const auto with = [&](std::size_t at, int value) {
    auto changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return read_header(changed).ok();
  };
  EXPECT_FALSE(with(0, 0));  // of no kind
  EXPECT_FALSE(with(0, 6));
  EXPECT_FALSE(with(7, 255));   // of a negative shard
  EXPECT_FALSE(with(15, 255));  // a negative version
  EXPECT_FALSE(with(16, 1));    // between two blocks
  EXPECT_FALSE(with(23, 255));  // before the first
}

TEST(Message, APayloadIsOneBlock) {
  constexpr std::int64_t kFloats = kBlockFloats + 3;
  EXPECT_TRUE(check_payload({Kind::kSum, Version(1), 0}, kBlockFloats * 4, kFloats).ok());
  EXPECT_TRUE(check_payload({Kind::kSum, Version(1), kBlockFloats}, 12, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), 0}, 12, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), kBlockFloats}, 13, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), 2 * kBlockFloats}, 0, kFloats).ok());
  EXPECT_FALSE(check_payload({Kind::kSum, Version(1), 0}, 0, 0).ok());
}

TEST(Message, WordsHaveNoPayload) {
  for (const Kind kind : {Kind::kKeptHere, Kind::kSquares}) {
    EXPECT_TRUE(check_payload({kind, Version(1), 0}, 0, kBlockFloats).ok());
    EXPECT_FALSE(check_payload({kind, Version(1), 0}, 4, kBlockFloats).ok());
    EXPECT_FALSE(check_payload({kind, Version(1), 0}, kBlockFloats * 4, kBlockFloats).ok());
  }
}

}  // namespace
}  // namespace paceline::exchange

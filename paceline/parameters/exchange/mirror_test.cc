#include "paceline/parameters/exchange/mirror.h"

#include <gtest/gtest.h>

namespace paceline::exchange {
namespace {

constexpr std::int64_t kMirrorFloats = kLeastBlock + 5;

Mirror make_mirror(std::vector<bool> moving = {true, true}) {
  return Mirror(memory::WeightWriter::create(kMirrorFloats, 4, 2).value(), kMirrorFloats, std::move(moving));
}

// Lets a version arrive; returns the last result of arrived().
std::optional<Header> fill_mirror(Mirror& mirror, Kind kind, Version version, float value) {
  std::optional<Header> whole;
  for (const std::int64_t begin : {kLeastBlock, std::int64_t{0}}) {
    const auto room = mirror.room({kind, version, begin});
    EXPECT_TRUE(room.ok() && room->has_value()) << room.status();
    std::fill((*room)->begin(), (*room)->end(), value);
    EXPECT_FALSE(whole.has_value());
    whole = mirror.arrived().value();
  }
  return whole;
}

TEST(Mirror, PublishesAWholeVersion) {
  Mirror mirror = make_mirror();
  auto reader = memory::WeightReader::open(mirror.path(), kMirrorFloats, 0).value();
  EXPECT_FALSE(reader.pin(Version(0), std::chrono::nanoseconds::zero()));
  const auto whole = fill_mirror(mirror, Kind::kWeights, Version(0), 1);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->version, Version(0));
  ASSERT_TRUE(fill_mirror(mirror, Kind::kWeights, Version(4), 4));
  const auto pinned = reader.pin(Version(2), std::chrono::nanoseconds::zero());
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->version, Version(4));
  EXPECT_EQ(pinned->weights[kLeastBlock], 4.0f);
}

// All at once would keep the links of its thread silent.
TEST(Mirror, FillsInWhatDoesNotMoveABitAtATime) {
  constexpr std::int64_t kFloats = (std::int64_t{3} << 24) + 7;
  std::vector<bool> moving(block_count(kFloats), false);
  moving.back() = true;
  Mirror mirror(memory::WeightWriter::create(kFloats, 4, 2).value(), kFloats, moving);
  auto reader = memory::WeightReader::open(mirror.path(), kFloats, 0).value();
  for (std::size_t block = 0; block < moving.size(); ++block) {
    const auto room = mirror.room({Kind::kWeights, Version(0), block_begin(kFloats, block)});
    ASSERT_TRUE(room.ok() && room->has_value()) << room.status();
    std::fill((*room)->begin(), (*room)->end(), static_cast<float>(block));
    ASSERT_TRUE(mirror.arrived().ok());
  }
  const Header moves{Kind::kWeights, Version(1), block_begin(kFloats, moving.size() - 1)};
  auto room = mirror.room(moves);
  int waits = 0;
  for (; room.ok() && !room->has_value(); room = mirror.room(moves), ++waits)
    EXPECT_TRUE(mirror.is_filling());
  ASSERT_TRUE(room.ok()) << room.status();
  EXPECT_EQ(waits, 2);
  EXPECT_FALSE(mirror.is_filling());
  (*room)->front() = -1;
  ASSERT_TRUE(mirror.arrived().value());
  const auto pinned = reader.pin_exactly(Version(1));
  ASSERT_TRUE(pinned);
  for (std::size_t block = 0; block + 1 < moving.size(); ++block)
    ASSERT_EQ(pinned->weights[static_cast<std::size_t>(block_begin(kFloats, block))],
              static_cast<float>(block));
  EXPECT_EQ(pinned->weights[static_cast<std::size_t>(moves.begin)], -1.0F);
}

TEST(Mirror, KeepsAnOlderVersionWithoutPublishingIt) {
  Mirror mirror = make_mirror();
  auto reader = memory::WeightReader::open(mirror.path(), kMirrorFloats, 0).value();
  fill_mirror(mirror, Kind::kWeights, Version(4), 4);
  const auto whole = fill_mirror(mirror, Kind::kKept, Version(3), 3);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->kind, Kind::kKept);
  EXPECT_EQ(reader.version(), Version(4));
  const auto pinned = reader.pin_exactly(Version(3));
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->weights[0], 3.0f);
  reader.unpin();
  fill_mirror(mirror, Kind::kWeights, Version(5), 5);
  ASSERT_TRUE(reader.pin_exactly(Version(3)));
  EXPECT_EQ(reader.pin_exactly(Version(3))->weights[0], 3.0f);
  reader.unpin();
  mirror.drop(Version(3));
  fill_mirror(mirror, Kind::kWeights, Version(6), 6);
  EXPECT_EQ(reader.pin(Version(6), std::chrono::nanoseconds::zero())->weights[0], 6.0f);
}

TEST(Mirror, TakesOneVersionAtATime) {
  Mirror mirror = make_mirror();
  ASSERT_TRUE(mirror.room({Kind::kWeights, Version(1), 0})->has_value());
  EXPECT_FALSE(mirror.room({Kind::kWeights, Version(2), 0})->has_value());
  EXPECT_FALSE(mirror.room({Kind::kKept, Version(1), 0})->has_value());
  EXPECT_FALSE(mirror.room({Kind::kWeights, Version(1), 0}).ok());  // twice
}

TEST(Mirror, ABlockThatDoesNotMoveComesOnce) {
  Mirror mirror = make_mirror({false, true});
  auto reader = memory::WeightReader::open(mirror.path(), kMirrorFloats, 0).value();
  auto keeper = memory::WeightReader::open(mirror.path(), kMirrorFloats, 1).value();
  ASSERT_TRUE(fill_mirror(mirror, Kind::kKept, Version(0), 7));
  for (int version = 1; version < 8; ++version) {
    const Version now(version);
    EXPECT_FALSE(mirror.room({Kind::kWeights, now, 0}).ok()) << "again";
    const auto room = mirror.room({Kind::kWeights, now, kLeastBlock});
    ASSERT_TRUE(room.ok() && room->has_value());
    std::fill((*room)->begin(), (*room)->end(), static_cast<float>(version));
    ASSERT_TRUE(mirror.arrived().value()) << "it is whole";
    // Several versions are pinned, so that several buffers are used.
    const auto pinned = (version == 2 ? keeper : reader).pin(now, std::chrono::nanoseconds::zero());
    ASSERT_TRUE(pinned);
    EXPECT_EQ(pinned->weights[0], 7.0f);
    EXPECT_EQ(pinned->weights[kLeastBlock - 1], 7.0f);
    EXPECT_EQ(pinned->weights[kLeastBlock], static_cast<float>(version));
  }
}

TEST(Mirror, TakesTheFirstBlockAsANewVersionIfNothingMoves) {
  Mirror mirror = make_mirror({false, false});
  ASSERT_TRUE(fill_mirror(mirror, Kind::kWeights, Version(0), 7));
  const auto room = mirror.room({Kind::kWeights, Version(1), 0});
  ASSERT_TRUE(room.ok() && room->has_value());
  std::fill((*room)->begin(), (*room)->end(), 7.0f);
  ASSERT_TRUE(mirror.arrived().value());
  auto reader = memory::WeightReader::open(mirror.path(), kMirrorFloats, 0).value();
  const auto pinned = reader.pin(Version(1), std::chrono::nanoseconds::zero());
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->weights[kLeastBlock], 7.0f);
}

TEST(Mirror, RefusesBlocksThatCannotCome) {
  Mirror mirror = make_mirror();
  fill_mirror(mirror, Kind::kWeights, Version(4), 4);
  EXPECT_FALSE(mirror.room({Kind::kWeights, Version(4), 0}).ok());
  EXPECT_FALSE(mirror.room({Kind::kWeights, Version(3), 0}).ok());
  fill_mirror(mirror, Kind::kKept, Version(1), 1);
  fill_mirror(mirror, Kind::kKept, Version(2), 2);
  ASSERT_TRUE(mirror.room({Kind::kKept, Version(3), 0})->has_value());
  ASSERT_TRUE(mirror.room({Kind::kKept, Version(3), kLeastBlock})->has_value());
  ASSERT_TRUE(mirror.arrived().ok());
  EXPECT_FALSE(mirror.arrived().ok());  // more than may be kept
}

}  // namespace
}  // namespace paceline::exchange

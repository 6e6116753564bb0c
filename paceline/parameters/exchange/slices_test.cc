#include "paceline/parameters/exchange/slices.h"

#include <thread>

#include <gtest/gtest.h>

#include "paceline/parameters/exchange/message.h"

namespace paceline::exchange {
namespace {

constexpr std::int64_t kSlicesFloats = 2 * kLeastBlock + 5;

// Lets all blocks of a slice arrive, filled with `value`.
void fill_slices(Slices& slices, int host, Version version, float value) {
  for (std::int64_t begin = 0; begin < kSlicesFloats; begin += kLeastBlock) {
    const auto room = slices.room(host, version, begin);
    ASSERT_TRUE(room.ok()) << room.status();
    ASSERT_TRUE(room->has_value());
    std::fill((*room)->begin(), (*room)->end(), value);
    slices.arrived(host, version, begin);
  }
}

TEST(Slices, TheShardWaitsForABlockAndForNoOther) {
  Slices slices(2, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 2));
  const float* slice = slices.slice(1, Version(1));
  const std::jthread link([&] {
    const auto last = slices.room(1, Version(1), 2 * kLeastBlock);
    ASSERT_TRUE(last.ok() && last->has_value());
    EXPECT_EQ((*last)->size(), 5u);
    std::fill((*last)->begin(), (*last)->end(), 3.0f);
    slices.arrived(1, Version(1), 2 * kLeastBlock);
  });
  EXPECT_TRUE(slices.wait(1, Version(1), 2 * kLeastBlock + 1, kSlicesFloats).ok());
  EXPECT_EQ(slice[kSlicesFloats - 1], 3.0f);
}

TEST(Slices, TakesTheNextCommitWhileOneIsApplied) {
  Slices slices(2, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 2));
  fill_slices(slices, 1, Version(3), 3);
  fill_slices(slices, 1, Version(5), 5);
  auto third = slices.room(1, Version(6), 0);
  ASSERT_TRUE(third.ok());
  EXPECT_FALSE(third->has_value());
  EXPECT_TRUE(slices.room(0, Version(6), 0)->has_value());  // another host's

  EXPECT_EQ(slices.slice(1, Version(3))[7], 3.0f);
  EXPECT_TRUE(slices.wait(1, Version(3), 0, kSlicesFloats).ok());
  slices.release(1, Version(3));
  EXPECT_TRUE(slices.room(1, Version(6), 0)->has_value());
  EXPECT_EQ(slices.slice(1, Version(5))[7], 5.0f);
}

TEST(Slices, RefusesBlocksThatCannotCome) {
  Slices slices(1, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 1));
  fill_slices(slices, 0, Version(3), 3);
  EXPECT_FALSE(slices.room(0, Version(3), 0).ok());  // twice
  EXPECT_FALSE(slices.room(0, Version(2), 0).ok());  // before the other
  slices.slice(0, Version(3));
  slices.release(0, Version(3));
  EXPECT_FALSE(slices.room(0, Version(3), 0).ok());  // over
}

// A host that is not asked for its next commit, but sends a later one, delays no other host.
TEST(Slices, ALaterCommitMayComeBeforeAnEarlierOneIsAskedFor) {
  Slices slices(1, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 1));
  ASSERT_TRUE(slices.room(0, Version(9), 0)->has_value());
  slices.slice(0, Version(3));
  fill_slices(slices, 0, Version(3), 3);
  EXPECT_TRUE(slices.wait(0, Version(3), 0, kSlicesFloats).ok());
  EXPECT_EQ(slices.slice(0, Version(3))[7], 3.0f);
  slices.release(0, Version(3));
  EXPECT_FALSE(slices.room(0, Version(9), 0).ok());  // the block is still under way
  EXPECT_TRUE(slices.room(0, Version(9), kLeastBlock)->has_value());
}

TEST(Slices, LeaveRoomWhenTheyAreSkipped) {
  Slices slices(1, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 1));
  fill_slices(slices, 0, Version(1), 1);
  ASSERT_TRUE(slices.room(0, Version(2), 0)->has_value());  // this block stays under way
  EXPECT_FALSE(slices.room(0, Version(3), 0)->has_value());
  EXPECT_FALSE(slices.skipped(0, Version(1)));
  slices.skip(0, Version(2));
  EXPECT_TRUE(slices.skipped(0, Version(2)));
  EXPECT_FALSE(slices.skipped(0, Version(3)));
  fill_slices(slices, 0, Version(3), 3);
  const auto late = slices.room(0, Version(2), kLeastBlock);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_FALSE(late->has_value());
  slices.arrived(0, Version(2), 0);
  EXPECT_EQ(slices.slice(0, Version(3))[7], 3.0f);
  EXPECT_TRUE(slices.wait(0, Version(3), 0, kSlicesFloats).ok());
  slices.release(0, Version(3));
  EXPECT_FALSE(slices.room(0, Version(3), 0).ok()) << "it was not skipped, and is over";
}

// A version without any block so far can be skipped as well.
TEST(Slices, GiveNoMemoryToBlocksThatComeAfterTheSkip) {
  Slices slices(1, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 1));
  slices.skip(0, Version(4));
  slices.slice(0, Version(5));
  EXPECT_FALSE(slices.room(0, Version(3), 0)->has_value());
  fill_slices(slices, 0, Version(5), 5);
  EXPECT_TRUE(slices.wait(0, Version(5), 0, kSlicesFloats).ok());
  slices.skip(0, Version(3));
  EXPECT_TRUE(slices.skipped(0, Version(4))) << "still";
}

// A peer that sends slices nobody asks for, and holds them back, gets separate memory, and not much of it.
TEST(Slices, TakeUnwantedBlocksAfterTheirCommit) {
  Slices slices(1, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 1));
  for (int commit = 1; commit <= 4; ++commit) {
    slices.slice(0, Version(commit));
    ASSERT_TRUE(slices.room(0, Version(commit), 0)->has_value()) << commit;
    slices.release(0, Version(commit));
  }
  EXPECT_FALSE(slices.room(0, Version(5), 0)->has_value());
  const auto before = slices.room(0, Version(4), kLeastBlock);
  EXPECT_FALSE(before.ok()) << "it is over";
  EXPECT_TRUE(slices.arrived(0, Version(2), 0));
  const auto room = slices.room(0, Version(5), 0);
  ASSERT_TRUE(room->has_value());
  std::fill((*room)->begin(), (*room)->end(), 5.0f);
  EXPECT_FALSE(slices.arrived(0, Version(5), 0));
  EXPECT_TRUE(slices.arrived(0, Version(3), 0));
  EXPECT_EQ(slices.slice(0, Version(5))[0], 5.0f);
}

// A host sends its gradients early or not, and needs memory for one.
TEST(Slices, OfTwoKindsShareTheirMemory) {
  const auto spares = std::make_shared<SpareFloats>(kSlicesFloats, 1);
  Slices sums(1, kSlicesFloats, spares), early(1, kSlicesFloats, spares);
  const float* const memory = sums.slice(0, Version(1));
  sums.release(0, Version(1));
  EXPECT_EQ(early.slice(0, Version(1)), memory);
  EXPECT_NE(early.slice(0, Version(2)), memory);
  early.release(0, Version(1));
  EXPECT_EQ(sums.slice(0, Version(2)), memory);
}

TEST(Slices, NobodyWaitsForWhatDoesNotCome) {
  Slices slices(1, kSlicesFloats, std::make_shared<SpareFloats>(kSlicesFloats, 1));
  slices.slice(0, Version(1));
  const std::jthread link([&] { slices.fail(absl::UnavailableError("the link is gone")); });
  const absl::Status status = slices.wait(0, Version(1), 0, 1);
  EXPECT_EQ(status.message(), "the link is gone");
}

}  // namespace
}  // namespace paceline::exchange

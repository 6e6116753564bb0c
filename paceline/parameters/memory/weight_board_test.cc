// The board step by step: which buffers are taken, what readers find, what survives a reader that dies. Many
// threads at once are in weight_board_stress_test.cc.
#include "paceline/parameters/memory/weight_board.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"

namespace paceline::memory {
namespace {

using namespace std::chrono_literals;
using paceline::testing::ChildProcess;
using ::testing::Each;

constexpr std::int64_t kBoardFloats = 1500;

WeightWriter board_of(int readers, int kept) {
  return WeightWriter::create(kBoardFloats, readers, kept).value();
}

// Every float of a version's buffer is the version.
void publish(WeightWriter& writer, int version) {
  const std::span<float> next = writer.next();
  std::fill(next.begin(), next.end(), static_cast<float>(version));
  writer.publish(Version(version));
}

// The reader opened on the board of this very process.
WeightReader reader_of(const WeightWriter& writer, int slot) {
  return WeightReader::open(writer.path(), kBoardFloats, slot).value();
}

TEST(WeightBoard, AReaderFindsTheLatest) {
  WeightWriter writer = board_of(1, 0);
  WeightReader reader = reader_of(writer, 0);
  for (int version = 0; version < 5; ++version) {
    publish(writer, version);
    const auto pinned = reader.pin(Version(0), 0ns);
    ASSERT_TRUE(pinned);
    EXPECT_EQ(pinned->version, Version(version));
    EXPECT_EQ(pinned->weights.size(), static_cast<std::size_t>(kBoardFloats));
    EXPECT_THAT(pinned->weights, Each(static_cast<float>(version)));
    EXPECT_EQ(writer.version(), Version(version));
    EXPECT_THAT(writer.latest(), Each(static_cast<float>(version)));
  }
}

// A reader maps them alone, and Linux maps whole pages, which have 64 KiB on some hosts.
TEST(WeightBoard, ItsBuffersBeginAtAPage) { EXPECT_EQ(WeightReader::buffers_offset() % (64 << 10), 0u); }

TEST(WeightBoard, NothingIsThereBeforeTheFirstVersion) {
  WeightWriter writer = board_of(1, 1);
  WeightReader reader = reader_of(writer, 0);
  EXPECT_FALSE(reader.pin(Version(0), 0ns));
  EXPECT_FALSE(reader.pin_exactly(Version(0)));
  publish(writer, 0);
  const auto first = reader.pin_exactly(Version(0));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->weights.data(), reader.pin(Version(0), 0ns)->weights.data());
}

TEST(WeightBoard, TheFirstVersionNeedNotBeZero) {
  WeightWriter writer = board_of(1, 0);
  publish(writer, 41);
  EXPECT_EQ(reader_of(writer, 0).pin(Version(0), 0ns)->version, Version(41));
}

TEST(WeightBoard, AVersionThatDoesNotComeTimesOut) {
  WeightWriter writer = board_of(1, 0);
  WeightReader reader = reader_of(writer, 0);
  publish(writer, 3);
  EXPECT_FALSE(reader.pin(Version(4), 20ms));
  EXPECT_TRUE(reader.pin(Version(3), 0ns));
}

// Here and in the next an hour means for ever: a reader that is not woken does not end, and neither does the
// test.
TEST(WeightBoard, AReaderSleepsUntilItsVersionComes) {
  WeightWriter writer = board_of(1, 0);
  WeightReader reader = reader_of(writer, 0);
  std::jthread publisher([&] {
    for (int version = 0; version <= 3; ++version) {
      std::this_thread::sleep_for(5ms);
      publish(writer, version);
    }
  });
  const auto pinned = reader.pin(Version(3), 1h);
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->version, Version(3));
  EXPECT_THAT(pinned->weights, Each(3.0f));
}

TEST(WeightBoard, AReaderInAnotherProcessIsWoken) {
  WeightWriter writer = board_of(1, 0);
  publish(writer, 0);
  ChildProcess child([&](const ChildProcess::Parent& parent) {
    auto reader = WeightReader::open(writer.path(), kBoardFloats, 0);
    if (!reader.ok()) return 1;
    parent.say("here");
    const auto pinned = reader->pin(Version(1), 1h);
    return pinned && pinned->weights.back() == 1.0f ? 0 : 2;
  });
  EXPECT_EQ(child.hear(), "here");
  publish(writer, 1);
  EXPECT_EQ(child.wait(), 0);
}

TEST(WeightBoard, TheWriterNeverTakesALatestAPinnedOrAKeptBuffer) {
  WeightWriter writer = board_of(2, 2);
  WeightReader first = reader_of(writer, 0);
  WeightReader second = reader_of(writer, 1);
  publish(writer, 1);
  const auto pinned1 = first.pin(Version(1), 0ns);
  publish(writer, 2);
  ASSERT_TRUE(writer.keep(Version(2)).ok());
  publish(writer, 3);
  const auto pinned3 = second.pin(Version(3), 0ns);
  publish(writer, 4);
  ASSERT_TRUE(writer.keep(Version(4)).ok());
  for (int version = 5; version < 20; ++version) publish(writer, version);
  EXPECT_THAT(pinned1->weights, Each(1.0f));
  EXPECT_THAT(pinned3->weights, Each(3.0f));
  EXPECT_THAT(writer.kept(Version(2)), Each(2.0f));
  EXPECT_THAT(writer.kept(Version(4)), Each(4.0f));
  EXPECT_THAT(writer.latest(), Each(19.0f));
}

TEST(WeightBoard, ABufferIsUsedAgainOnceNobodyNeedsIt) {
  WeightWriter writer = board_of(1, 1);
  WeightReader reader = reader_of(writer, 0);
  publish(writer, 1);
  const float* first = writer.latest().data();
  ASSERT_TRUE(reader.pin(Version(1), 0ns));
  publish(writer, 2);
  EXPECT_NE(writer.next().data(), first) << "pinned";
  reader.unpin();
  EXPECT_EQ(writer.next().data(), first);
  publish(writer, 3);
  ASSERT_TRUE(writer.keep(Version(3)).ok());
  publish(writer, 4);
  EXPECT_NE(writer.next().data(), first) << "kept";
  writer.drop(Version(3));
  EXPECT_EQ(writer.next().data(), first);
}

TEST(WeightBoard, KeepsOnlyTheLatestAndOnlySoMany) {
  WeightWriter writer = board_of(1, 1);
  publish(writer, 1);
  publish(writer, 2);
  EXPECT_EQ(writer.keep(Version(1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(writer.keep(Version(2)).ok());
  publish(writer, 3);
  EXPECT_EQ(writer.keep(Version(3)).code(), absl::StatusCode::kResourceExhausted);
  writer.drop(Version(7));  // not kept: nothing happens
  writer.drop(Version(2));
  EXPECT_TRUE(writer.keep(Version(3)).ok());
}

TEST(WeightBoard, AKeptVersionCanBePinnedByItsNumber) {
  WeightWriter writer = board_of(1, 1);
  WeightReader reader = reader_of(writer, 0);
  publish(writer, 1);
  ASSERT_TRUE(writer.keep(Version(1)).ok());
  for (int version = 2; version < 9; ++version) publish(writer, version);
  const auto kept = reader.pin_exactly(Version(1));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->version, Version(1));
  writer.drop(Version(1));
  for (int version = 9; version < 20; ++version) publish(writer, version);
  EXPECT_THAT(kept->weights, Each(1.0f)) << "still pinned";
  reader.unpin();
  for (int version = 20; version < 24; ++version) publish(writer, version);
  EXPECT_FALSE(reader.pin_exactly(Version(1)));
  EXPECT_FALSE(reader.pin_exactly(Version(24)));
  EXPECT_THAT(reader.pin_exactly(Version(23))->weights, Each(23.0f));
}

TEST(WeightBoard, ABufferThatIsBeingWrittenHoldsNoVersion) {
  WeightWriter writer = board_of(1, 0);
  WeightReader reader = reader_of(writer, 0);
  publish(writer, 1);
  const float* first = writer.latest().data();
  publish(writer, 2);
  ASSERT_TRUE(reader.pin_exactly(Version(1))) << "old, but nobody has taken its buffer";
  reader.unpin();
  ASSERT_EQ(writer.next().data(), first);
  EXPECT_FALSE(reader.pin_exactly(Version(1)));
}

TEST(WeightBoard, WhatAKilledReaderHadPinnedIsFreedByReleaseReader) {
  WeightWriter writer = board_of(2, 0);
  publish(writer, 1);
  const float* pinned = writer.latest().data();
  ChildProcess child([&](const ChildProcess::Parent& parent) {
    auto reader = WeightReader::open(writer.path(), kBoardFloats, 1);
    if (!reader.ok() || !reader->pin(Version(1), 60s)) return 1;
    parent.say("pinned");
    parent.hear();  // until it is killed
    return 0;
  });
  ASSERT_EQ(child.hear(), "pinned");
  child.kill();
  for (int version = 2; version < 10; ++version) {
    publish(writer, version);
    ASSERT_NE(writer.latest().data(), pinned) << "the pin is still there";
  }
  writer.release_reader(0);  // another's slot
  writer.release_reader(-1);
  writer.release_reader(WeightWriter::kSlots);
  publish(writer, 10);
  publish(writer, 11);
  EXPECT_NE(writer.latest().data(), pinned);
  writer.release_reader(1);
  publish(writer, 12);
  bool used_again = writer.latest().data() == pinned;
  publish(writer, 13);
  used_again = used_again || writer.latest().data() == pinned;
  EXPECT_TRUE(used_again);
}

// The board that the next process takes up when the writer's process ends.
absl::StatusOr<WeightWriter> adopted(const WeightWriter& writer, int readers, int kept) {
  return WeightWriter::adopt(ipc::SharedMemory::open(writer.path()).value(), kBoardFloats, readers, kept);
}

TEST(WeightBoard, TheNextProcessGoesOnWithTheBoard) {
  WeightWriter writer = board_of(1, 1);
  EXPECT_FALSE(adopted(writer, 1, 1).ok()) << "no version yet";
  WeightReader reader = reader_of(writer, 0);
  for (const int version : {0, 1, 2}) publish(writer, version);
  const auto pinned = reader.pin(Version(2), 0ns);
  ASSERT_TRUE(writer.keep(Version(2)).ok());
  publish(writer, 3);
  EXPECT_FALSE(adopted(writer, 2, 1).ok()) << "another size";
  WeightWriter next = adopted(writer, 1, 1).value();
  EXPECT_EQ(next.version(), Version(3));
  ASSERT_TRUE(next.keep_again(Version(2)).ok());
  EXPECT_TRUE(absl::IsNotFound(next.keep_again(Version(1))));
  for (int version = 4; version < 9; ++version) publish(next, version);
  EXPECT_THAT(pinned->weights, Each(2.0f));
  EXPECT_THAT(next.kept(Version(2)), Each(2.0f));
  EXPECT_EQ(reader.pin(Version(8), 0ns)->version, Version(8));
}

TEST(WeightBoard, TheNextProcessGoesOnWithTheBufferThatWasTaken) {
  WeightWriter writer = board_of(1, 0);
  publish(writer, 0);
  EXPECT_FALSE(adopted(writer, 1, 0)->take_again().ok());
  writer.next()[7] = 5;
  {
    WeightWriter next = adopted(writer, 1, 0).value();
    EXPECT_EQ(next.take_again().value()[7], 5);
    next.publish(Version(1));
  }
  EXPECT_EQ(writer.latest()[7], 5);
  EXPECT_FALSE(adopted(writer, 1, 0)->take_again().ok()) << "it is published";
}

TEST(WeightBoard, AReaderThatWaitsIsWokenByTheNextProcess) {
  WeightWriter writer = board_of(1, 0);
  publish(writer, 0);
  WeightReader reader = reader_of(writer, 0);
  std::thread next([&] {
    WeightWriter adopting = adopted(writer, 1, 0).value();
    publish(adopting, 1);
  });
  EXPECT_TRUE(reader.pin(Version(1), 60s));
  next.join();
}

TEST(WeightBoardDeathTest, VersionsOnlyGoForward) {
  WeightWriter writer = board_of(1, 0);
  publish(writer, 2);
  EXPECT_DEATH(publish(writer, 2), "publish 2 after 2");
  EXPECT_DEATH(publish(writer, 1), "publish 1 after 2");
  EXPECT_DEATH(writer.publish(Version(3)), "publish 3 after 2") << "nothing was taken";
  EXPECT_DEATH(writer.kept(Version(2)), "not kept");
}

// ---- What cannot be trusted: the header is memory that others can write ----

constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kFloatsAt = 8;
constexpr std::size_t kBuffersAt = 16;
constexpr std::size_t kLatestAt = 24;

template <class T>
void scribble(const WeightWriter& writer, std::size_t at, T value) {
  const ipc::SharedMemory memory = ipc::SharedMemory::open(writer.path()).value();
  const ipc::Mapping mapping = memory.map(0, 4096, true).value();
  std::memcpy(mapping.data() + at, &value, sizeof value);
}

absl::StatusCode opening(const WeightWriter& writer, int slot) {
  return WeightReader::open(writer.path(), kBoardFloats, slot).status().code();
}

TEST(WeightBoard, AReaderRefusesABoardThatIsNotItsModels) {
  const WeightWriter writer = board_of(2, 0);
  EXPECT_EQ(WeightReader::open(writer.path(), kBoardFloats + 1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(opening(writer, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(opening(writer, WeightWriter::kSlots), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(opening(writer, WeightWriter::kSlots - 1), absl::StatusCode::kOk);
  const ipc::SharedMemory small = ipc::SharedMemory::create("small", 100).value();
  EXPECT_EQ(WeightReader::open(small.path(), kBoardFloats, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::string gone;
  { gone = board_of(1, 0).path(); }
  EXPECT_EQ(WeightReader::open(gone, kBoardFloats, 0).status().code(), absl::StatusCode::kNotFound);
}

TEST(WeightBoard, AReaderRefusesASpoiltHeader) {
  const auto refused_with = [](std::size_t at, auto value) {
    const WeightWriter writer = board_of(2, 0);
    scribble(writer, at, value);
    return opening(writer, 0) == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused_with(kMagicAt, std::uint64_t{0}));
  EXPECT_TRUE(refused_with(kFloatsAt, kBoardFloats + 1));
  EXPECT_TRUE(refused_with(kFloatsAt, std::int64_t{-1}));
  EXPECT_TRUE(refused_with(kBuffersAt, std::int32_t{0}));
  EXPECT_TRUE(refused_with(kBuffersAt, std::int32_t{-1}));
  EXPECT_TRUE(refused_with(kBuffersAt, std::int32_t{1 << 30}));
  EXPECT_TRUE(refused_with(kBuffersAt, std::int32_t{50})) << "more than there is memory for";
}

TEST(WeightBoard, AHeaderSpoiltLaterDoesNotLeadAReaderAstray) {
  const WeightWriter empty = board_of(1, 0);
  WeightReader reader = reader_of(empty, 0);
  scribble(empty, kBuffersAt, std::int32_t{1 << 26});
  EXPECT_FALSE(reader.pin_exactly(Version(12345)));
  WeightWriter writer = board_of(1, 0);
  publish(writer, 1);
  WeightReader other = reader_of(writer, 0);
  scribble(writer, kBuffersAt, std::int32_t{1 << 26});
  scribble(writer, kLatestAt, std::uint64_t{(1u << 12) | 4000u});
  EXPECT_FALSE(other.pin(Version(1), 5ms)) << "buffer 4000";
}

}  // namespace
}  // namespace paceline::memory

// A mirror of a shard in the host's memory, which has the same reading as one on a card.
#include "paceline/processes/server_process/host_mirror.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::server_process {
namespace {

using testing::Each;

constexpr int kReaders = 2;

ps::Layout some_layout() {
  ps::Layout layout;
  layout.add("weight", ps::TensorKind::kParameter, {100});
  return layout;
}

class HostMirrorTest : public testing::Test {
 protected:
  HostMirrorTest()
      : shard_(
            some_layout(), {.kind = ps::OptimizerKind::kSgd, .momentum = 0},
            memory::WeightWriter::create(ps::Shard::board_floats(some_layout(), true), kReaders, 1).value(),
            1) {
    EXPECT_TRUE(shard_.start(Version(0), std::vector<float>(floats(), 5)).ok());
  }
  std::size_t floats() const { return static_cast<std::size_t>(some_layout().size()); }
  // Each weight becomes one less.
  void commit() {
    const std::vector<float> ones(floats(), 1);
    ps::Update update{.version = shard_.version().next(), .members = {}, .learning_rate = 1, .fraction = 1};
    update.members.push_back({ones.data(), 1, 1});
    EXPECT_TRUE(shard_.apply(update).ok());
  }
  memory::WeightReader reader(const HostMirror& mirror, int slot) const {
    return memory::WeightReader::open(mirror.path(), ps::Shard::board_floats(some_layout(), true), slot)
        .value();
  }

  ps::Shard shard_;
  HostMirror mirror_ = HostMirror::create(shard_, kReaders).value();
};

TEST_F(HostMirrorTest, HasNoVersionBeforeItFollows) {
  EXPECT_FALSE(reader(mirror_, 0).pin(Version(0), std::chrono::nanoseconds(0)));
}

TEST_F(HostMirrorTest, HasTheShardsWeightsAndDirection) {
  ASSERT_TRUE(mirror_.follow(shard_).ok());
  commit();
  ASSERT_TRUE(mirror_.follow(shard_).ok());
  auto reads = reader(mirror_, 0);
  const auto pinned = reads.pin(Version(1), std::chrono::nanoseconds(0));
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->version, Version(1));
  const auto here = shard_.board().latest();
  EXPECT_EQ(std::vector<float>(pinned->weights.begin(), pinned->weights.end()),
            std::vector<float>(here.begin(), here.end()));
  EXPECT_THAT(pinned->weights.first(100), Each(4));
}

TEST_F(HostMirrorTest, AVersionThatAReaderHasPinnedStays) {
  ASSERT_TRUE(mirror_.follow(shard_).ok());
  auto slow = reader(mirror_, 0), quick = reader(mirror_, 1);
  const auto pinned = slow.pin(Version(0), std::chrono::nanoseconds(0));
  ASSERT_TRUE(pinned);
  for (int i = 1; i <= 5; ++i) {
    commit();
    ASSERT_TRUE(mirror_.follow(shard_).ok());
    const auto latest = quick.pin(Version(i), std::chrono::nanoseconds(0));
    ASSERT_TRUE(latest);
    EXPECT_THAT(latest->weights.first(100), Each(5.0f - static_cast<float>(i)));
    quick.unpin();
  }
  EXPECT_THAT(pinned->weights.first(100), Each(5));
  mirror_.release_reader(0);
}

// A worker maps the mirror once, and the server may die at any moment after that.
TEST_F(HostMirrorTest, AReaderSeesTheVersionsOfTheNextServer) {
  const ipc::DescriptorKeep launchers = ipc::DescriptorKeep::open().value();
  ipc::DescriptorKeep keep(FileDescriptor(dup(launchers.ends()[0])),
                           FileDescriptor(dup(launchers.ends()[1])));
  KeptMemory kept(keep, wire::ServerStart());
  for (const bool followed : {false, true}) {
    std::optional<HostMirror> first = HostMirror::create(shard_, kReaders, &kept).value();
    if (followed) {
      ASSERT_TRUE(first->follow(shard_).ok());
    }
    auto reads = reader(*first, 0);
    first.reset();
    commit();
    HostMirror second = HostMirror::create(shard_, kReaders, &kept).value();
    ASSERT_TRUE(second.follow(shard_).ok());
    const auto pinned = reads.pin(shard_.version(), std::chrono::nanoseconds(0));
    ASSERT_TRUE(pinned) << followed;
    EXPECT_EQ(pinned->weights[0], shard_.weights()[0]);
    reads.unpin();
  }
}

// A server keeps a version for the evaluator while training goes on.
TEST_F(HostMirrorTest, AKeptVersionStaysUntilItIsDropped) {
  ASSERT_TRUE(shard_.board().keep(Version(0)).ok());
  ASSERT_TRUE(mirror_.keep(shard_, Version(0)).ok());
  auto evaluator = reader(mirror_, 0);
  for (int i = 1; i <= 5; ++i) {
    commit();
    ASSERT_TRUE(mirror_.follow(shard_).ok());
    const auto pinned = evaluator.pin_exactly(Version(0));
    ASSERT_TRUE(pinned);
    EXPECT_THAT(pinned->weights.first(100), Each(5));
    evaluator.unpin();
  }
  mirror_.drop(Version(0));
  for (int i = 6; i <= 8; ++i) {
    commit();
    ASSERT_TRUE(mirror_.follow(shard_).ok());
  }
  EXPECT_FALSE(evaluator.pin_exactly(Version(0))) << "its buffer is used again";
}

// The next server keeps again what the one before had kept, whatever has become of it here.
TEST_F(HostMirrorTest, AnEarlierVersionIsKeptAgainOrCopiedAgain) {
  const ipc::DescriptorKeep launchers = ipc::DescriptorKeep::open().value();
  ipc::DescriptorKeep keep(FileDescriptor(dup(launchers.ends()[0])),
                           FileDescriptor(dup(launchers.ends()[1])));
  for (const bool written_over : {false, true}) {
    KeptMemory kept(keep, wire::ServerStart());
    const Version version = shard_.version();
    const float weight = shard_.weights()[0];
    ASSERT_TRUE(shard_.board().keep(version).ok());
    std::optional<HostMirror> first = HostMirror::create(shard_, kReaders, &kept).value();
    ASSERT_TRUE(first->keep(shard_, version).ok());
    auto evaluator = reader(*first, 0);
    first.reset();
    commit();
    HostMirror second = HostMirror::create(shard_, kReaders, &kept).value();
    for (int i = 0; written_over && i < 20; ++i) {
      commit();
      ASSERT_TRUE(second.follow(shard_).ok());
    }
    ASSERT_EQ(evaluator.pin_exactly(version).has_value(), !written_over);
    evaluator.unpin();
    ASSERT_TRUE(second.keep(shard_, version).ok());
    const Version newest = shard_.version();
    ASSERT_TRUE(second.follow(shard_).ok());
    const auto pinned = evaluator.pin_exactly(version);
    ASSERT_TRUE(pinned) << written_over;
    EXPECT_EQ(pinned->weights[0], weight);
    EXPECT_EQ(evaluator.version(), newest) << "the latest one is as it was";
    evaluator.unpin();
    shard_.board().drop(version);
    keep.clear();
  }
}

TEST_F(HostMirrorTest, AVersionIsPublishedOnce) {
  ASSERT_TRUE(mirror_.follow(shard_).ok());
  ASSERT_TRUE(mirror_.follow(shard_).ok());
  EXPECT_EQ(reader(mirror_, 0).version(), Version(0));
}

}  // namespace
}  // namespace paceline::server_process

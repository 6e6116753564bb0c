// Faults that only a channel in memory can meet: other memory, and a peer that writes impossible sizes.
#include "paceline/transport/channels/ring_channel.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/transport/links/testing/channel_ends.h"

namespace paceline::channels {
namespace {

using namespace std::chrono_literals;
using links::testing::alike;

TEST(RingChannel, RefusesMemoryThatIsNoChannelOfTheseSizes) {
  const ChannelSizes sizes = alike(2, 100);
  const RingChannel channel = RingChannel::create(sizes).value();
  for (const ChannelSizes& other : {alike(1, 100), alike(2, 99), alike(2, 1'000'000)})
    EXPECT_EQ(RingChannel::open(channel.path(), other).status().code(), absl::StatusCode::kInvalidArgument);
  const memory::GradientWriter gradient = memory::GradientWriter::create(10'000).value();
  EXPECT_EQ(RingChannel::open(gradient.path(), sizes).status().code(), absl::StatusCode::kInvalidArgument);
  std::string path;
  {
    const RingChannel gone = RingChannel::create(sizes).value();
    path = gone.path();
  }
  EXPECT_EQ(RingChannel::open(path, sizes).status().code(), absl::StatusCode::kNotFound);
}

// A size that cannot be, laid over the true one by a peer that is not ours.
TEST(RingChannel, AMessageLargerThanItsSlotIsAnError) {
  const ChannelSizes sizes = alike(1, 100);
  RingChannel one = RingChannel::create(sizes).value();
  RingChannel other = RingChannel::open(one.path(), sizes).value();
  ASSERT_TRUE(one.room(0ns).value());
  one.send(100);
  const ipc::SharedMemory memory = ipc::SharedMemory::open(one.path()).value();
  const ipc::Mapping mapping = memory.map(0, memory.size(), true).value();
  std::uint64_t size = 0;
  std::size_t found = 0;
  for (std::size_t at = 0; at < 4096; at += sizeof(size)) {
    std::memcpy(&size, mapping.data() + at, sizeof(size));
    if (size != 100) continue;
    const std::uint64_t larger = 101;
    std::memcpy(mapping.data() + at, &larger, sizeof(larger));
    ++found;
  }
  ASSERT_EQ(found, 3u) << "the sizes of both ways, and of the message";
  EXPECT_EQ(other.message(0ns).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paceline::channels

// Both ends of a channel at full speed. Under ThreadSanitizer this also checks that the counts order the
// plain reads and writes of the slots.
#include <algorithm>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "paceline/transport/channels/ring_channel.h"

namespace paceline::channels {
namespace {

using namespace std::chrono_literals;

constexpr int kMessages = 5000;

std::size_t size_of(int message) { return static_cast<std::size_t>(message) * 37 % 257; }
std::byte value_of(int message) { return static_cast<std::byte>(message); }

void send_all(Channel& channel) {
  for (int i = 0; i < kMessages; ++i) {
    const auto room = channel.room(60s);
    ASSERT_TRUE(room.ok() && *room);
    std::fill_n((*room)->begin(), size_of(i), value_of(i));
    channel.send(size_of(i));
  }
}

void receive_all(Channel& channel) {
  for (int i = 0; i < kMessages; ++i) {
    const auto message = channel.message(60s);
    ASSERT_TRUE(message.ok() && *message);
    ASSERT_EQ((*message)->size(), size_of(i));
    ASSERT_TRUE(std::all_of((*message)->begin(), (*message)->end(),
                            [&](std::byte byte) { return byte == value_of(i); }));
    channel.release();
  }
}

TEST(ChannelStress, EveryMessageArrivesWholeAndInOrder) {
  for (const std::int64_t slots : {1, 2, 8}) {
    const ChannelSizes sizes{{slots, 257}, {slots, 257}};
    RingChannel one = RingChannel::create(sizes).value();
    RingChannel other = RingChannel::open(one.path(), sizes).value();
    std::jthread receiver([&] { receive_all(other); });
    send_all(one);
    receiver.join();
    std::jthread back([&] { send_all(other); });
    receive_all(one);
  }
}

}  // namespace
}  // namespace paceline::channels

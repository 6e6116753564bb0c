// What both ends of a channel may count on, between two processes.
#include "paceline/transport/channel.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/transport/gradient_buffer.h"
#include "paceline/transport/testing/child_process.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;
using transport::testing::ChildProcess;

constexpr std::size_t kSizes[] = {0, 1, 4, 100, 1000, 10000, 1'000'000};
constexpr auto kAtOnce = 0ns;

ChannelSizes alike(std::int64_t slots, std::int64_t bytes) { return {{slots, bytes}, {slots, bytes}}; }

std::vector<std::byte> bytes(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> all(count);
  for (std::byte& one : all) one = static_cast<std::byte>(rng.below(256));
  return all;
}

bool send(Channel& channel, std::span<const std::byte> message, std::chrono::nanoseconds timeout = 60s) {
  const auto room = channel.room(timeout);
  if (!room) return false;
  std::copy(message.begin(), message.end(), room->begin());
  channel.send(message.size());
  return true;
}

std::optional<std::vector<std::byte>> receive(Channel& channel, std::chrono::nanoseconds timeout = 60s) {
  const auto message = channel.message(timeout);
  if (!message.ok() || !*message) return std::nullopt;
  std::vector<std::byte> copy((*message)->begin(), (*message)->end());
  channel.release();
  return copy;
}

// Sends back what comes, `count` times.
int echo(const std::string& path, const ChannelSizes& sizes, std::size_t count) {
  auto channel = Channel::open(path, sizes);
  if (!channel.ok()) return 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto message = receive(*channel);
    if (!message || !send(*channel, *message)) return 2;
  }
  return 0;
}

class ChannelOf : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Slots, ChannelOf, ::testing::Values(1, 2, 4));

TEST_P(ChannelOf, MessagesOfEverySizeGoBothWays) {
  for (const std::size_t size : kSizes) {
    const ChannelSizes sizes = alike(GetParam(), static_cast<std::int64_t>(size));
    Channel channel = Channel::create(sizes).value();
    ChildProcess peer([&](const ChildProcess::Parent&) { return echo(channel.path(), sizes, 10); });
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::vector<std::byte> sent = bytes(size, round);
      ASSERT_TRUE(send(channel, sent));
      const auto received = receive(channel);
      ASSERT_TRUE(received);
      EXPECT_EQ(*received, sent) << size;
    }
    EXPECT_EQ(peer.wait(), 0);
  }
}

TEST_P(ChannelOf, SmallerMessagesKeepTheirSizesAndTheirOrder) {
  const ChannelSizes sizes = alike(GetParam(), 1'000'000);
  Channel channel = Channel::create(sizes).value();
  ChildProcess peer([&](const ChildProcess::Parent&) { return echo(channel.path(), sizes, 7 * 20); });
  std::uint64_t sent = 0, received = 0;
  const auto size_of = [](std::uint64_t message) { return kSizes[message * 5 % 7]; };
  while (received < 7 * 20) {
    if (sent < 7 * 20 && send(channel, bytes(size_of(sent), sent), kAtOnce)) {
      ++sent;
      continue;
    }
    const auto message = receive(channel);
    ASSERT_TRUE(message);
    ASSERT_EQ(*message, bytes(size_of(received), received)) << received;
    ++received;
  }
  EXPECT_EQ(peer.wait(), 0);
}

TEST_P(ChannelOf, ThereIsRoomForSoManyMessagesAndNoMore) {
  const ChannelSizes sizes = alike(GetParam(), 100);
  Channel one = Channel::create(sizes).value();
  Channel other = Channel::open(one.path(), sizes).value();
  for (int round = 0; round < 5; ++round) {
    for (std::int64_t i = 0; i < GetParam(); ++i) EXPECT_TRUE(send(one, bytes(100, 1), kAtOnce));
    EXPECT_FALSE(send(one, bytes(100, 1), kAtOnce));
    for (std::int64_t i = 0; i < GetParam(); ++i) EXPECT_TRUE(receive(other, kAtOnce));
    EXPECT_FALSE(receive(other, kAtOnce));
  }
}

TEST(Channel, EachWayHasSlotsOfItsOwn) {
  const ChannelSizes sizes{{1, 1000}, {2, 10}};
  Channel creator = Channel::create(sizes).value();
  Channel opener = Channel::open(creator.path(), sizes).value();
  EXPECT_TRUE(send(creator, bytes(1000, 1), kAtOnce));
  EXPECT_FALSE(send(creator, bytes(1000, 2), kAtOnce));
  EXPECT_TRUE(send(opener, bytes(10, 3), kAtOnce));
  EXPECT_TRUE(send(opener, bytes(10, 4), kAtOnce));
  EXPECT_EQ(*receive(opener, kAtOnce), bytes(1000, 1));
  EXPECT_EQ(*receive(creator, kAtOnce), bytes(10, 3));
  EXPECT_EQ(*receive(creator, kAtOnce), bytes(10, 4));
}

TEST(Channel, AMessageStaysUntilItIsReleasedAndRoomUntilItIsSent) {
  const ChannelSizes sizes = alike(2, 4);
  Channel one = Channel::create(sizes).value();
  Channel other = Channel::open(one.path(), sizes).value();
  const auto room = one.room(kAtOnce);
  ASSERT_TRUE(room);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(room->data()) % 64, 0u);
  EXPECT_EQ(one.room(kAtOnce)->data(), room->data());
  EXPECT_FALSE(receive(other, kAtOnce)) << "of what was not sent";
  ASSERT_TRUE(send(one, bytes(4, 1), kAtOnce));
  ASSERT_TRUE(send(one, bytes(4, 2), kAtOnce));
  for (int look = 0; look < 3; ++look) {
    const auto message = other.message(kAtOnce);
    ASSERT_TRUE(message.ok() && *message);
    EXPECT_TRUE(std::ranges::equal(**message, bytes(4, 1)));
  }
}

TEST(Channel, AReceiverThatWaitsForAKilledPeerGivesUpWhenItIsTold) {
  const ChannelSizes sizes = alike(2, 100);
  Channel channel = Channel::create(sizes).value();
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    auto mine = Channel::open(channel.path(), sizes);
    if (!mine.ok() || !send(*mine, bytes(100, 1)) || !mine->room(kAtOnce)) return 1;
    parent.say("sent");
    parent.hear();  // until it is killed, with a message half-written
    return 0;
  });
  EXPECT_EQ(peer.hear(), "sent");
  std::atomic<bool> told = false, waits = false;
  std::optional<std::vector<std::byte>> first, second;
  std::jthread receiver([&] {
    first = receive(channel);
    waits = true;
    while (!told && !second) second = receive(channel, 5ms);
  });
  while (!waits) std::this_thread::yield();
  peer.kill();
  told = true;
  receiver.join();
  EXPECT_EQ(first, bytes(100, 1)) << "what it sent before is whole";
  EXPECT_FALSE(second);
}

TEST(Channel, ASenderToAKilledPeerRunsOutOfRoom) {
  const ChannelSizes sizes = alike(2, 100);
  Channel channel = Channel::create(sizes).value();
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    auto mine = Channel::open(channel.path(), sizes);
    parent.say("here");
    parent.hear();
    return 0;
  });
  EXPECT_EQ(peer.hear(), "here");
  peer.kill();
  EXPECT_TRUE(send(channel, bytes(100, 1), kAtOnce));
  EXPECT_TRUE(send(channel, bytes(100, 2), kAtOnce));
  EXPECT_FALSE(send(channel, bytes(100, 3), 5ms));
}

TEST(Channel, WhatIsNotSuchAChannelIsRefused) {
  const ChannelSizes sizes = alike(2, 100);
  const Channel channel = Channel::create(sizes).value();
  for (const ChannelSizes& other : {alike(1, 100), alike(2, 99), alike(2, 1'000'000)})
    EXPECT_EQ(Channel::open(channel.path(), other).status().code(), absl::StatusCode::kInvalidArgument);
  const GradientWriter gradient = GradientWriter::create(10'000).value();
  EXPECT_EQ(Channel::open(gradient.path(), sizes).status().code(), absl::StatusCode::kInvalidArgument);
  std::string path;
  {
    const Channel gone = Channel::create(sizes).value();
    path = gone.path();
  }
  EXPECT_EQ(Channel::open(path, sizes).status().code(), absl::StatusCode::kNotFound);
}

// A size that cannot be, laid over the true one by a peer that is not ours.
TEST(Channel, AMessageLargerThanItsSlotIsAnError) {
  const ChannelSizes sizes = alike(1, 100);
  Channel one = Channel::create(sizes).value();
  Channel other = Channel::open(one.path(), sizes).value();
  ASSERT_TRUE(send(one, bytes(100, 1), kAtOnce));
  const SharedMemory memory = SharedMemory::open(one.path()).value();
  const Mapping mapping = memory.map(0, memory.size(), true).value();
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
  EXPECT_EQ(other.message(kAtOnce).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paceline::transport

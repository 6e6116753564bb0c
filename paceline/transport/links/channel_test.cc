// The promises to both ends of a channel, between two processes: the same for every kind of channel.
#include "paceline/transport/channels/channel.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"
#include "paceline/transport/links/testing/channel_ends.h"
#include "paceline/transport/links/testing/link_ends.h"

namespace paceline::channels {
namespace {

using namespace std::chrono_literals;
using links::testing::alike;
using links::testing::ChannelHost;
using links::testing::ChannelKind;
using paceline::testing::ChildProcess;

constexpr std::size_t kMessageBytes[] = {0, 1, 4, 100, 1000, 10000, 1'000'000};
constexpr auto kAtOnce = 0ns;

std::vector<std::byte> bytes(std::size_t count, std::uint64_t seed) {
  return links::testing::payload(count, seed);
}

bool send(channels::Channel& channel, std::span<const std::byte> message,
          std::chrono::nanoseconds timeout = 60s) {
  const auto room = channel.room(timeout);
  if (!room.ok() || !*room) return false;
  std::copy(message.begin(), message.end(), (*room)->begin());
  channel.send(message.size());
  return true;
}

std::optional<std::vector<std::byte>> receive(channels::Channel& channel,
                                              std::chrono::nanoseconds timeout = 60s) {
  const auto message = channel.message(timeout);
  if (!message.ok() || !*message) return std::nullopt;
  std::vector<std::byte> copy((*message)->begin(), (*message)->end());
  channel.release();
  return copy;
}

struct Kind {
  ChannelKind kind;
  std::int64_t slots;
};

std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  return fmt::format("{}{}", to_string(info.param.kind), info.param.slots);
}

class ChannelOf : public ::testing::TestWithParam<Kind> {
 protected:
  ChannelHost host() const { return ChannelHost(GetParam().kind); }
  channels::ChannelSizes sizes(std::int64_t bytes) const { return alike(GetParam().slots, bytes); }

  // Opens the channel whose place it hears, and sends back `count` messages.
  std::function<int(const ChildProcess::Parent&)> echo(const channels::ChannelSizes& sizes,
                                                       std::size_t count) const {
    return [=, this](const ChildProcess::Parent& parent) {
      ChannelHost here = host();
      const auto channel = here.open(parent.hear(), sizes);
      for (std::size_t i = 0; i < count; ++i) {
        const auto message = receive(*channel);
        if (!message || !send(*channel, *message)) return 2;
      }
      parent.hear();  // the last message is still under way
      return 0;
    };
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ChannelOf,
                         ::testing::Values(Kind{ChannelKind::kRing, 1}, Kind{ChannelKind::kRing, 2},
                                           Kind{ChannelKind::kRing, 4}, Kind{ChannelKind::kSealed, 1},
                                           Kind{ChannelKind::kSealed, 2}, Kind{ChannelKind::kSealed, 16},
                                           Kind{ChannelKind::kTcp, 2}, Kind{ChannelKind::kUcx, 2}),
                         name_of);

TEST_P(ChannelOf, MessagesOfEverySizeGoBothWays) {
  for (const std::size_t size : kMessageBytes) {
    const channels::ChannelSizes both = sizes(static_cast<std::int64_t>(size));
    ChildProcess peer(echo(both, 10));
    ChannelHost here = host();
    const auto made = here.create(both);
    peer.say(made.where);
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::vector<std::byte> sent = bytes(size, round);
      ASSERT_TRUE(send(*made.channel, sent));
      const auto received = receive(*made.channel);
      ASSERT_TRUE(received);
      EXPECT_EQ(*received, sent) << size;
    }
    peer.say("that is all");
    EXPECT_EQ(peer.wait(), 0);
  }
}

TEST_P(ChannelOf, SmallerMessagesKeepTheirSizesAndTheirOrder) {
  ChildProcess peer(echo(sizes(1'000'000), 7 * 20));
  ChannelHost here = host();
  const auto made = here.create(sizes(1'000'000));
  peer.say(made.where);
  std::uint64_t sent = 0, received = 0;
  const auto size_of = [](std::uint64_t message) { return kMessageBytes[message * 5 % 7]; };
  while (received < 7 * 20) {
    // An answer may come before the notice that its message was released: if none is under way, wait for
    // room.
    const auto limit = sent == received ? 60s : kAtOnce;
    if (sent < 7 * 20 && send(*made.channel, bytes(size_of(sent), sent), limit)) {
      ++sent;
      continue;
    }
    const auto message = receive(*made.channel);
    ASSERT_TRUE(message);
    ASSERT_EQ(*message, bytes(size_of(received), received)) << received;
    ++received;
  }
  peer.say("that is all");
  EXPECT_EQ(peer.wait(), 0);
}

TEST_P(ChannelOf, ThereIsRoomForSoManyMessagesAndNoMore) {
  ChannelHost here = host(), there = host();
  const auto made = here.create(sizes(100));
  const auto other = there.open(made.where, sizes(100));
  for (int round = 0; round < 5; ++round) {
    for (std::int64_t i = 0; i < GetParam().slots; ++i)
      EXPECT_TRUE(send(*made.channel, bytes(100, static_cast<std::uint64_t>(i))));
    EXPECT_FALSE(send(*made.channel, bytes(100, 1), 5ms));
    for (std::int64_t i = 0; i < GetParam().slots; ++i)
      EXPECT_EQ(*receive(*other), bytes(100, static_cast<std::uint64_t>(i)));
    EXPECT_FALSE(receive(*other, 5ms));
  }
}

TEST_P(ChannelOf, EachWayHasSlotsOfItsOwn) {
  const channels::ChannelSizes uneven{{1, 1000}, {2, 10}};
  ChannelHost here = host(), there = host();
  const auto made = here.create(uneven);
  const auto opener = there.open(made.where, uneven);
  EXPECT_TRUE(send(*made.channel, bytes(1000, 1)));
  EXPECT_FALSE(send(*made.channel, bytes(1000, 2), kAtOnce));
  EXPECT_TRUE(send(*opener, bytes(10, 3)));
  EXPECT_TRUE(send(*opener, bytes(10, 4)));
  EXPECT_EQ(*receive(*opener), bytes(1000, 1));
  EXPECT_EQ(*receive(*made.channel), bytes(10, 3));
  EXPECT_EQ(*receive(*made.channel), bytes(10, 4));
}

TEST_P(ChannelOf, AMessageStaysUntilItIsReleasedAndRoomUntilItIsSent) {
  ChannelHost here = host(), there = host();
  const auto made = here.create(sizes(4));
  const auto other = there.open(made.where, sizes(4));
  const auto room = made.channel->room(kAtOnce);
  ASSERT_TRUE(room.ok() && *room);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*room)->data()) % 64, 0u);
  EXPECT_EQ((**made.channel->room(kAtOnce)).data(), (*room)->data());
  EXPECT_FALSE(receive(*other, 5ms)) << "of what was not sent";
  for (std::int64_t i = 0; i < GetParam().slots; ++i)
    ASSERT_TRUE(send(*made.channel, bytes(4, static_cast<std::uint64_t>(i))));
  for (int look = 0; look < 3; ++look) {
    const auto message = other->message(60s);
    ASSERT_TRUE(message.ok() && *message);
    EXPECT_TRUE(std::ranges::equal(**message, bytes(4, 0)));
  }
}

TEST_P(ChannelOf, AReceiverThatWaitsForAKilledPeerGivesUpWhenItIsTold) {
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    ChannelHost there = host();
    const auto mine = there.open(parent.hear(), sizes(100));
    if (!send(*mine, bytes(100, 1))) return 1;
    if (GetParam().slots > 1 && !(*mine->room(kAtOnce))) return 2;
    parent.hear();  // until it is killed, with a message half-written
    return 0;
  });
  ChannelHost here = host();
  const auto made = here.create(sizes(100));
  peer.say(made.where);
  std::atomic<bool> told = false, waits = false;
  std::optional<std::vector<std::byte>> first, second;
  std::jthread receiver([&] {
    first = receive(*made.channel);
    waits = true;
    while (!told && !second) second = receive(*made.channel, 5ms);
  });
  while (!waits) std::this_thread::yield();
  peer.kill();
  told = true;
  receiver.join();
  EXPECT_EQ(first, bytes(100, 1)) << "what it sent before is whole";
  EXPECT_FALSE(second);
}

TEST_P(ChannelOf, ASenderToAKilledPeerRunsOutOfRoom) {
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    ChannelHost there = host();
    const auto mine = there.open(parent.hear(), sizes(100));
    if (!send(*mine, bytes(100, 1))) return 1;
    parent.hear();
    return 0;
  });
  ChannelHost here = host();
  const auto made = here.create(sizes(100));
  peer.say(made.where);
  EXPECT_EQ(receive(*made.channel), bytes(100, 1));
  peer.kill();
  std::int64_t sent = 0;
  while (sent <= GetParam().slots && send(*made.channel, bytes(100, 2), 5ms)) ++sent;
  EXPECT_LE(sent, GetParam().slots);
}

}  // namespace
}  // namespace paceline::channels

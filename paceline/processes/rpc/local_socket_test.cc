// The local way of a stream's messages: offers that are taken, refused and imitated, and frames in pieces.
#include "paceline/processes/rpc/local_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/processes/rpc/local_client.h"
#include "paceline/transport/ipc/abstract_socket.h"

namespace paceline::rpc {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    one = FileDescriptor(ends[0]);
    other = FileDescriptor(ends[1]);
  }
  FileDescriptor one, other;
};

std::string frame_of(std::string_view message) {
  std::string frame;
  std::copy(message.begin(), message.end(), Frames::add_to(frame, message.size()));
  return frame;
}

TEST(LocalOffer, ConnectsThoseWhoTakeIt) {
  const auto offer = LocalOffer::make().value();
  EXPECT_FALSE(offer.accept().ok()) << "nobody has taken it";
  const auto taker = take_offer(offer.text());
  ASSERT_TRUE(taker.has_value());
  const auto maker = offer.accept();
  ASSERT_TRUE(maker.ok());
  EXPECT_EQ(send_at_once(taker->get(), frame_of("hello")), 9u);
  Frames frames;
  EXPECT_EQ(frames.receive(maker->get()), Frames::Received::kSome);
  EXPECT_EQ(frames.next(), "hello");
}

TEST(LocalOffer, PassesOverThoseWhoDoNotShowTheKey) {
  const auto offer = LocalOffer::make().value();
  const std::string name = offer.text().substr(0, offer.text().find(' '));
  const auto silent = ipc::connect_to_name(name, std::chrono::seconds(0)).value();
  const auto impostor = ipc::connect_to_name(name, std::chrono::seconds(0)).value();
  EXPECT_TRUE(send_at_once(impostor.get(), std::string(32, 'x')));
  EXPECT_FALSE(offer.accept().ok());
  const auto second_impostor = ipc::connect_to_name(name, std::chrono::seconds(0)).value();
  const auto taker = take_offer(offer.text());
  ASSERT_TRUE(taker.has_value());
  const auto maker = offer.accept();
  ASSERT_TRUE(maker.ok());
  EXPECT_TRUE(send_at_once(maker->get(), frame_of("x")));
  Frames frames;
  EXPECT_EQ(frames.receive(taker->get()), Frames::Received::kSome) << "it is not the impostor's";
}

TEST(LocalOffer, OffersThatLeadNowhereAreNotTaken) {
  const std::string key(32, 'a');
  std::string gone;
  { gone = LocalOffer::make().value().text(); }
  const std::string other = "@other-" + ipc::new_socket_name();
  const auto listener = ipc::listen_at_name(other).value();
  for (const std::string& text :
       std::vector<std::string>{"", " ", "@paceline-1", "@paceline-1 short", gone, other + " " + key,
                                "/tmp/paceline " + key, "@paceline-" + std::string(200, 'x') + " " + key})
    EXPECT_FALSE(take_offer(text).has_value()) << text;
}

TEST(Frames, MessagesComeOutAsTheyWentIn) {
  Rng rng(1);
  const Pair pair;
  std::vector<std::string> sent, received;
  std::string bytes;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t size = i % 50 == 0 ? 100'000 + rng.below(200'000) : rng.below(300);
    sent.emplace_back(static_cast<std::size_t>(size), static_cast<char>('a' + i % 26));
    bytes += frame_of(sent.back());
  }
  Frames frames;
  std::string_view left = bytes;
  while (!left.empty()) {
    const std::string_view piece = left.substr(0, static_cast<std::size_t>(1 + rng.below(5000)));
    const auto went = send_at_once(pair.one.get(), piece);
    ASSERT_TRUE(went.has_value());
    left.remove_prefix(*went);
    if (rng.below(3) == 0 && *went > 0) continue;
    ASSERT_NE(frames.receive(pair.other.get()), Frames::Received::kEnded);
    while (const auto message = frames.next()) received.emplace_back(*message);
  }
  while (frames.receive(pair.other.get()) == Frames::Received::kSome)
    while (const auto message = frames.next()) received.emplace_back(*message);
  EXPECT_EQ(received, sent);
}

TEST(Frames, WhatCameBeforeTheEndIsThere) {
  Pair pair;
  send_at_once(pair.one.get(), frame_of("last") + frame_of("half").substr(0, 6));
  pair.one = FileDescriptor();
  Frames frames;
  EXPECT_EQ(frames.receive(pair.other.get()), Frames::Received::kSome);
  EXPECT_EQ(frames.next(), "last");
  EXPECT_EQ(frames.next(), std::nullopt);
  EXPECT_EQ(frames.receive(pair.other.get()), Frames::Received::kEnded);
  EXPECT_EQ(frames.next(), std::nullopt);
}

// The other end answers with the end of the stream, often before the sender's thread goes on.
TEST(LocalClient, AMessageThatWasSentIsNotSaidToBeLost) {
  for (int i = 0; i < 20000; ++i) {
    Pair pair;
    LocalClient client(std::move(pair.one), WakeEvent::create().value());
    std::jthread coordinator([&] {
      Frames frames;
      while (frames.receive(pair.other.get()) == Frames::Received::kNothing) {
      }
      client.end();
    });
    ASSERT_TRUE(client.send(frame_of("the last answer"))) << "round " << i;
    coordinator.join();
    ASSERT_FALSE(client.send(frame_of("one more")));
  }
}

TEST(Frames, AFrameThatIsTooLongIsTheEnd) {
  const Pair pair;
  send_at_once(pair.one.get(), frame_of("good") + std::string("\xff\xff\xff\x7fmore", 8));
  Frames frames;
  EXPECT_EQ(frames.receive(pair.other.get()), Frames::Received::kEnded);
  EXPECT_EQ(frames.next(), "good");
  EXPECT_EQ(frames.next(), std::nullopt);
}

}  // namespace
}  // namespace paceline::rpc

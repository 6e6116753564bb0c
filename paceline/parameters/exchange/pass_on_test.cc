// Weights that come over two ways, in every possible order: a host that passes weights on, between other
// hosts that the test plays.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/parameters/exchange/exchange.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/transport/links/link_name.h"

namespace paceline::exchange {
namespace {

constexpr std::int64_t kBoardFloats = kLeastBlock + 10;  // two blocks
constexpr int kHosts = 4;
constexpr std::size_t kOwner = 1;  // the owner of the shard whose weights are passed on
constexpr std::size_t kOther = 2;  // the owner of another one
constexpr std::chrono::seconds kLongest{20};

links::LinkKeys keys_of(std::size_t host) {
  return {.send = {std::byte(host)}, .receive = {std::byte(16 + host)}};
}

class PassOn : public ::testing::Test {
 protected:
  void SetUp() override {
    exchange_ = Exchange::listen("127.0.0.1", links::Fabric::kTcp).value();
    ExchangeOptions options;
    for (std::size_t host = 0; host < kHosts; ++host) options.peers.push_back({"", keys_of(host)});
    options.part_floats.assign(kHosts, kBoardFloats);
    options.board_floats.assign(kHosts, kBoardFloats);
    options.moving.assign(kHosts, {true, true});
    options.kept_here = {0};
    options.own_board = board_.path();
    options.pass_on = true;
    options.kept_there = [](Version) {};
    options.failed = [](const absl::Status& why) { ADD_FAILURE() << why; };
    ASSERT_TRUE(exchange_->start(options).ok());
    reader_.emplace(memory::WeightReader::open(exchange_->boards()[kOwner], kBoardFloats, 0).value());
    for (std::size_t host = 1; host < kHosts; ++host) {
      const std::string name = links::said_name("host " + std::to_string(host), keys_of(host).receive, false);
      links_[host] = network_.connect(exchange_->address(), name, {}).value();
      links_[host]->on_message([this, host](const links::Link::Message& message) {
        const auto memory = std::make_shared<std::vector<std::byte>>(message.bytes);
        const Header header = read_header(message.header).value();
        links_[host]->receive(message.id, *memory, [this, host, memory, header](const absl::Status& status) {
          if (status.ok()) heard_[host].push_back(header);
        });
      });
    }
    ASSERT_TRUE(eventually([&] { return links_[1]->open() && links_[2]->open() && links_[3]->open(); }));
  }
  void TearDown() override { exchange_.reset(); }

  bool eventually(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + kLongest;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      move();
    }
    return true;
  }
  void move() {
    for (std::size_t host = 1; host < kHosts; ++host) {
      EXPECT_TRUE(links_[host]->progress().ok());
      links_[host]->wait(std::chrono::milliseconds(1));
    }
  }
  // Lets that host send weights of a shard; each of them is the version's number.
  void say(std::size_t host, std::int64_t version, std::uint64_t pass_on = 0, std::size_t shard = kOwner) {
    for (std::size_t block = 0; block < block_count(kBoardFloats); ++block)
      say_block(host, version, block, pass_on, shard);
  }
  void say_block(std::size_t host, std::int64_t version, std::size_t block, std::uint64_t pass_on = 0,
                 std::size_t shard = kOwner) {
    const std::int64_t begin = block_begin(kBoardFloats, block);
    const std::int64_t end = std::min(block_begin(kBoardFloats, block + 1), kBoardFloats);
    const auto floats = std::make_shared<std::vector<float>>(static_cast<std::size_t>(end - begin),
                                                             static_cast<float>(version));
    links_[host]->send(write_header({.kind = Kind::kWeights,
                                     .version = Version(version),
                                     .begin = begin,
                                     .shard = static_cast<int>(shard),
                                     .pass_on = pass_on}),
                       std::as_bytes(std::span(*floats)), [floats](const absl::Status&) {});
  }
  bool shows(std::int64_t version) const { return reader_->version() == Version(version); }
  bool shown(std::int64_t version) {
    return eventually([&] { return shows(version); });
  }
  void expect_latest(std::int64_t version) {
    const auto pinned = reader_->pin(Version(version), std::chrono::seconds(0));
    ASSERT_TRUE(pinned);
    EXPECT_EQ(pinned->version, Version(version));
    for (const float one : pinned->weights) EXPECT_EQ(one, static_cast<float>(version));
    reader_->unpin();
  }

  std::array<std::vector<Header>, kHosts> heard_;

 private:
  const links::Network network_ = links::Network::open("127.0.0.1", links::Fabric::kTcp).value();
  memory::WeightWriter board_ = memory::WeightWriter::create(kBoardFloats, kHosts, 0).value();
  std::optional<memory::WeightReader> reader_;
  std::unique_ptr<Exchange> exchange_;
  std::array<std::unique_ptr<links::Link>, kHosts> links_;
};

TEST_F(PassOn, ToTheNextHostWithoutIt) {
  say(kOwner, 0);
  ASSERT_TRUE(shown(0));
  say(kOwner, 1, 0b1100);
  ASSERT_TRUE(eventually([&] { return !heard_[2].empty(); }));
  EXPECT_EQ(heard_[2].front().pass_on, 0b1000u);
  EXPECT_EQ(heard_[2].front().version, Version(1));
  EXPECT_TRUE(heard_[3].empty());
  ASSERT_TRUE(shown(1));
  expect_latest(1);
}

// The first version has the blocks that never move: a block that comes before it waits.
TEST_F(PassOn, LetsBlocksWaitForTheFirstVersion) {
  say(2, 1);
  // A fault would show version 1 by now, or end the exchange.
  for (int i = 0; i < 50; ++i) move();
  EXPECT_FALSE(shows(1));
  say(kOwner, 0);
  ASSERT_TRUE(shown(1));
  expect_latest(1);
}

TEST_F(PassOn, PassesOnLateBlocksWithoutPublishingThem) {
  say(kOwner, 0);
  say(kOwner, 3);
  ASSERT_TRUE(shown(3));
  say(2, 2, 0b1000);
  ASSERT_TRUE(eventually([&] { return !heard_[3].empty(); }));
  EXPECT_EQ(heard_[3].front().version, Version(2));
  EXPECT_EQ(heard_[3].front().pass_on, 0u);
  expect_latest(3);
  say(2, 4);
  ASSERT_TRUE(shown(4));
  expect_latest(4);
}

// The earlier version goes first, so its blocks would fill the link before the rest of the later one.
TEST_F(PassOn, AVersionWhoseFirstBlockHasComeDoesNotWaitBehindAnEarlierOne) {
  say(kOwner, 0);
  ASSERT_TRUE(shown(0));
  say_block(2, 2, 0);
  for (int i = 0; i < 100; ++i) say(2, 1, 0b1000);
  say_block(2, 2, 1);
  ASSERT_TRUE(shown(2));
  expect_latest(2);
  ASSERT_TRUE(eventually([&] { return heard_[3].size() == 200; }))
      << "the next host may need the earlier one";
}

TEST_F(PassOn, WeightsThatWaitHoldBackNoOtherShards) {
  for (const std::size_t shard : {kOwner, kOther}) say(shard, 0, 0, shard);
  ASSERT_TRUE(shown(0));
  // Each host then sends the rest behind blocks that wait for the other one's rest.
  say_block(kOwner, 1, 0);
  say_block(kOther, 1, 0, 0, kOther);
  // Waits until these two versions are under way.
  for (int i = 0; i < 50; ++i) move();
  say(kOwner, 2, 0, kOther);
  say(kOther, 2);
  say_block(kOwner, 1, 1);
  say_block(kOther, 1, 1, 0, kOther);
  ASSERT_TRUE(shown(2));
}

}  // namespace
}  // namespace paceline::exchange

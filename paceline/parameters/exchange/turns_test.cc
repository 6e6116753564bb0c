// Gradients of several commits over the one link of the host that keeps all weights: those of the commit that
// it waits for come, and others wait. The test plays the senders, so blocks under way stay there.
#include <poll.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/parameters/exchange/exchange.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/transport/links/link_name.h"

namespace paceline::exchange {
namespace {

links::LinkKeys keys_to(int host) { return {.send = {std::byte(host)}, .receive = {std::byte(16 + host)}}; }

class Turns : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBlocks = 6;
  static constexpr std::int64_t kFloats = kBlocks * kLeastBlock;
  static constexpr int kHosts = 3;

  void SetUp() override {
    exchange_ = Exchange::listen("127.0.0.1", links::Fabric::kTcp).value();
    ExchangeOptions options;
    for (int host = 0; host < kHosts; ++host) options.peers.push_back({"", keys_to(host)});
    options.part_floats = options.board_floats = {kFloats, 0, 0};
    options.moving = {std::vector<bool>(kBlocks, true), {}, {}};
    options.kept_here = {0};
    options.early = true;
    options.own_board = board_.path();
    options.readers = kHosts;
    options.kept_there = [](Version) {};
    options.failed = [](const absl::Status& why) { ADD_FAILURE() << why; };
    ASSERT_TRUE(exchange_->start(options).ok());
    for (int host = 1; host < kHosts; ++host) {
      const std::string name = links::said_name("host " + std::to_string(host), keys_to(host).receive, false);
      link(host) = network_.connect(exchange_->address(), name, {}).value();
      move_until(host, [&] { return link(host)->open(); });
    }
  }
  void TearDown() override { exchange_.reset(); }

  std::unique_ptr<links::Link>& link(int host) { return links_[static_cast<std::size_t>(host)]; }
  void move(int host) {
    ASSERT_TRUE(link(host)->progress().ok());
    link(host)->wait(std::chrono::milliseconds(1));
  }
  void move_until(int host, const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      move(host);
    }
  }
  // Offers a gradient, which goes as the host's link is moved.
  void offer(int host, std::int64_t version, Kind kind = Kind::kSum) {
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      link(host)->send(write_header({kind, Version(version), block * kLeastBlock, 0}),
                       std::as_bytes(std::span(gradient_).first(kLeastBlock)),
                       [this, host](const absl::Status& status) {
                         if (status.ok()) ++gone_[static_cast<std::size_t>(host)];
                       });
    }
    ASSERT_TRUE(link(host)->progress().ok());
  }
  // Waits until the exchange has asked for blocks of that host, which do not come as long as its link is not
  // moved.
  void wait_until_asked(int host) {
    pollfd answer{link(host)->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&answer, 1, 20'000), 1);
    // The link's own timer ends the poll as well, so a busy machine gets another second.
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  int gone(int host) const { return gone_[static_cast<std::size_t>(host)]; }
  bool here(int host, std::int64_t version) {
    exchange_->slice(0, host, Version(version));
    return exchange_->wait(0, host, Version(version), 0, kFloats).ok();
  }

  std::unique_ptr<Exchange> exchange_;

 private:
  const std::vector<float> gradient_ = std::vector<float>(kLeastBlock, 1.0f);
  const links::Network network_ = links::Network::open("127.0.0.1", links::Fabric::kTcp).value();
  memory::WeightWriter board_ = memory::WeightWriter::create(kFloats, 16, 0).value();
  std::array<std::unique_ptr<links::Link>, kHosts> links_;
  std::array<int, kHosts> gone_{};
};

TEST_F(Turns, ALaterCommitWaitsForTheOneBeforeIt) {
  exchange_->in_turn(Version(1));
  offer(1, 1);
  wait_until_asked(1);
  offer(2, 2);
  for (int i = 0; i < 100; ++i) move(2);
  EXPECT_EQ(gone(2), 0) << "the link is busy with commit 1";
  move_until(1, [&] { return gone(1) == kBlocks; });
  EXPECT_TRUE(here(1, 1));
  move_until(2, [&] { return gone(2) == kBlocks; });
  EXPECT_TRUE(here(2, 2));
}

TEST_F(Turns, ASenderThatIsStuckAheadOfItsTurnHoldsUpNobodyWhoseTurnItIs) {
  exchange_->in_turn(Version(1));
  offer(2, 2);
  wait_until_asked(2);
  offer(1, 1);
  move_until(1, [&] { return gone(1) == kBlocks; });
  EXPECT_TRUE(here(1, 1));
  EXPECT_EQ(gone(2), 0);
  exchange_->in_turn(Version(2));
  move_until(2, [&] { return gone(2) == kBlocks; });
  EXPECT_TRUE(here(2, 2));
}

// There is room for two of three gradients.
TEST_F(Turns, AGradientThatIsEarlyWaitsForNoCommitsAndNoCommitForIt) {
  for (const Kind first : {Kind::kSum, Kind::kEarly}) {
    const int host = first == Kind::kSum ? 1 : 2;
    for (const int number : {1, 2, 3}) offer(host, number, first);
    offer(host, 1, first == Kind::kSum ? Kind::kEarly : Kind::kSum);
    move_until(host, [&] { return gone(host) == 3 * kBlocks; });
    for (int i = 0; i < 20; ++i) move(host);
    EXPECT_EQ(gone(host), 3 * kBlocks);
  }
}

// Skipped gradients get memory that is nobody's, a few blocks at a time.
TEST_F(Turns, SkippedGradientsAreTakenIn) {
  for (const int number : {1, 2, 3, 4}) offer(1, number, Kind::kEarly);
  move_until(1, [&] { return gone(1) == 2 * kBlocks; });
  exchange_->skip(0, 1, EarlyNumber(4));
  offer(1, 5, Kind::kEarly);
  move_until(1, [&] { return gone(1) == 5 * kBlocks; });
  exchange_->slice(0, 1, EarlyNumber(5));
  EXPECT_TRUE(exchange_->wait(0, 1, EarlyNumber(5), 0, kFloats).ok());
}

}  // namespace
}  // namespace paceline::exchange

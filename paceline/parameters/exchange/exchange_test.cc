// A host that is not part of the job: it may send anything; the exchange ends with one line, and the process
// goes on.
#include "paceline/parameters/exchange/exchange.h"

#include <future>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/parameters/memory/weight_board.h"
#include "paceline/transport/links/link_name.h"

namespace paceline::exchange {
namespace {

constexpr std::int64_t kExchangeFloats = 10;
constexpr links::LinkKeys kKeys{.send = {std::byte{1}}, .receive = {std::byte{2}}};

// Host 0 of two; the test plays host 1.
class ExchangeWithAStranger : public ::testing::Test {
 protected:
  virtual bool passes_on() const { return false; }
  virtual bool takes_early() const { return true; }

  void SetUp() override {
    exchange_ = Exchange::listen("127.0.0.1", links::Fabric::kTcp, [this](const std::string& line) {
                  refused_ += line + '\n';
                }).value();
    ExchangeOptions options;
    options.peers.resize(2);
    options.peers[1].keys = kKeys;
    options.part_floats = {kExchangeFloats, kExchangeFloats};
    options.board_floats = {kExchangeFloats, kExchangeFloats};
    options.moving.assign(2, std::vector<bool>(block_count(kExchangeFloats), true));
    options.kept_here = {0};
    options.own_board = board_.path();
    options.kept = 2;
    options.early = takes_early();
    options.pass_on = passes_on();
    options.kept_there = [](Version) {};
    options.failed = [this](const absl::Status& why) { why_.set_value(why); };
    ASSERT_TRUE(exchange_->start(options).ok());
  }

  void stop() { exchange_.reset(); }
  Exchange& exchange() { return *exchange_; }

  static std::string name_of_host_1(const links::SealKey& secret) {
    return links::said_name("host 1", secret, false);
  }

  // The reason why a peer of that name is not let in.
  absl::Status refusal_of(const std::string& name) const {
    const auto network = links::Network::open("127.0.0.1", links::Fabric::kTcp).value();
    const auto link = network.connect(exchange_->address(), name, {}).value();
    absl::Status status;
    while ((status = link->progress()).ok() && !link->open()) link->wait(std::chrono::seconds(1));
    return status;
  }

  // The reason why the exchange ends when host 1 sends this header `times` times.
  absl::Status end_after(const Header& header, std::size_t bytes, int times = 1) {
    const auto network = links::Network::open("127.0.0.1", links::Fabric::kTcp).value();
    const auto link = network.connect(exchange_->address(), name_of_host_1(kKeys.receive), {}).value();
    const std::vector<std::byte> payload(bytes);
    for (int i = 0; i < times; ++i) link->send(write_header(header), payload, [](const absl::Status&) {});
    while (link->progress().ok()) link->wait(std::chrono::seconds(1));
    return why_.get_future().get();
  }

  std::string refused_;  // lines; used by the exchange's thread

 private:
  memory::WeightWriter board_ = memory::WeightWriter::create(kExchangeFloats, 1, 0).value();
  std::promise<absl::Status> why_;
  std::unique_ptr<Exchange> exchange_;
};

// A name can be guessed. A peer without its secret takes nobody's place.
TEST_F(ExchangeWithAStranger, ANameWithoutItsSecretIsNobodys) {
  for (const std::string& name : {std::string("host 1"), name_of_host_1(kKeys.send), name_of_host_1({})})
    EXPECT_EQ(refusal_of(name).code(), absl::StatusCode::kFailedPrecondition) << name;
  EXPECT_TRUE(refusal_of(name_of_host_1(kKeys.receive)).ok());
  stop();
  EXPECT_THAT(refused_, ::testing::HasSubstr("no host of this job"));
  EXPECT_THAT(refused_, ::testing::Not(::testing::HasSubstr("0000"))) << "a secret";
}

// A thread that waits for a silent host is told once nobody wants the result any more.
TEST_F(ExchangeWithAStranger, TellsWaitingThreadsWhenTheWorkIsGivenUp) {
  const std::vector<float> block(kExchangeFloats);
  exchange().send(1, 1, Version(1), 0, block);
  exchange().give_up(absl::UnavailableError("nobody wants it"));
  const absl::Status flushed = exchange().flush(1);
  EXPECT_EQ(flushed, absl::UnavailableError("nobody wants it"));
}

TEST_F(ExchangeWithAStranger, TheWordThatAVersionIsKeptWithAPayloadEndsIt) {
  const absl::Status why = end_after({Kind::kKeptHere, Version(1), 0}, 8);
  EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(why.message()), ::testing::HasSubstr("host 1"));
}

TEST_F(ExchangeWithAStranger, GradientsForAShardThatIsNotHereEndIt) {
  EXPECT_EQ(end_after({Kind::kSum, Version(1), 0, 1}, 4 * kExchangeFloats).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(ExchangeWithAStranger, AnEarlyGradientForAShardThatIsNotHereEndsIt) {
  EXPECT_EQ(end_after({Kind::kEarly, Version(1), 0, 1}, 4 * kExchangeFloats).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(ExchangeWithAStranger, AnEarlyGradientWithoutANumberEndsIt) {
  EXPECT_EQ(end_after({Kind::kEarly, Version(0), 0, 0}, 4 * kExchangeFloats).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(ExchangeWithAStranger, AnEarlyGradientOfAnotherSizeEndsIt) {
  EXPECT_EQ(end_after({Kind::kEarly, Version(1), 0, 0}, 4 * kExchangeFloats - 4).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(ExchangeWithAStranger, AnEarlyGradientThatComesTwiceEndsIt) {
  const absl::Status why = end_after({Kind::kEarly, Version(1), 0, 0}, 4 * kExchangeFloats, 2);
  EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(why.message()), ::testing::HasSubstr("twice"));
}

TEST_F(ExchangeWithAStranger, WeightsOfAnotherSizeEndIt) {
  EXPECT_EQ(end_after({Kind::kWeights, Version(1), 0}, 4 * kExchangeFloats - 1).code(),
            absl::StatusCode::kDataLoss);
}

class ExchangeWithoutEarlyGradients : public ExchangeWithAStranger {
 protected:
  bool takes_early() const override { return false; }
};

TEST_F(ExchangeWithoutEarlyGradients, EndsAtOne) {
  EXPECT_EQ(end_after({Kind::kEarly, Version(1), 0, 0}, 4 * kExchangeFloats).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(ExchangeWithAStranger, WeightsOfAThirdHostsShardEndIt) {
  EXPECT_EQ(end_after({Kind::kWeights, Version(1), 0, 0}, 4 * kExchangeFloats).code(),
            absl::StatusCode::kDataLoss);
}

// Weights are only passed on to hosts that exist, and not back to where they come from.
class ExchangeThatPassesOn : public ExchangeWithAStranger, public ::testing::WithParamInterface<Header> {
 protected:
  bool passes_on() const override { return true; }
};

TEST_P(ExchangeThatPassesOn, EndsAtAWayThatIsNone) {
  EXPECT_EQ(end_after(GetParam(), 4 * kExchangeFloats).code(), absl::StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(
    Weights, ExchangeThatPassesOn,
    ::testing::Values(Header{Kind::kWeights, Version(1), 0, 0}, Header{Kind::kWeights, Version(1), 0, 2},
                      Header{Kind::kKept, Version(1), 0, 0},
                      Header{.kind = Kind::kWeights, .version = Version(1), .shard = 1, .pass_on = 1},
                      Header{.kind = Kind::kWeights, .version = Version(1), .shard = 1, .pass_on = 2},
                      Header{.kind = Kind::kWeights, .version = Version(1), .shard = 1, .pass_on = 4},
                      Header{
                          .kind = Kind::kWeights, .version = Version(1), .shard = 1, .pass_on = 1ULL << 63}));

}  // namespace
}  // namespace paceline::exchange

#include "paceline/parameters/exchange/send_turns.h"

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline::exchange {
namespace {

using std::chrono::milliseconds;

// Blocks are written as host and version, "1v5", in the order in which they go.
class SendTurnsTest : public ::testing::Test {
 protected:
  void add(int host, int version, int blocks, int ms = 0) {
    const auto send = [=, this](const SendTurns::Turn& turn) {
      gone_ += fmt::format("{}v{} ", host, version);
      turn_of_[{host, version}] = turn;
    };
    for (int block = 0; block < blocks; ++block) turns_.add(host, Version(version), send, at(ms));
  }
  void sent(int host, int version, int ms = 0) { turns_.sent(host, turn_of_.at({host, version}), at(ms)); }
  std::string gone() { return std::exchange(gone_, {}); }
  static SendTurns::Time at(int ms) { return SendTurns::Time(milliseconds(ms)); }

  SendTurns turns_;
  std::string gone_;
  std::map<std::pair<int, int>, SendTurns::Turn> turn_of_;
};

TEST_F(SendTurnsTest, OneVersionGoesToAllItsHostsAtOnce) {
  add(1, 5, 3);
  add(2, 5, 3);
  EXPECT_EQ(gone(), "1v5 1v5 1v5 2v5 2v5 2v5 ");
}

TEST_F(SendTurnsTest, ALaterVersionWaitsForAnEarlierOne) {
  add(1, 5, 4);
  add(2, 6, 2);
  EXPECT_EQ(gone(), "1v5 1v5 1v5 1v5 ");
  EXPECT_TRUE(turns_.waiting());
  sent(1, 5);
  EXPECT_EQ(gone(), "") << "three are still on their way";
  sent(1, 5);
  EXPECT_EQ(gone(), "2v6 ") << "the link is never idle";
  sent(1, 5);
  EXPECT_EQ(gone(), "2v6 ");
  EXPECT_FALSE(turns_.waiting());
}

TEST_F(SendTurnsTest, SendsAnEarlierVersionFirstEvenIfItComesLate) {
  add(1, 5, 4);
  add(2, 7, 1);
  add(3, 6, 1);
  add(4, 5, 1);
  EXPECT_EQ(gone(), "1v5 1v5 1v5 1v5 4v5 ");
  for (int block = 0; block < 3; ++block) sent(1, 5);
  EXPECT_EQ(gone(), "3v6 ");
  sent(1, 5);
  EXPECT_EQ(gone(), "2v7 ");
}

TEST_F(SendTurnsTest, ServesOneHostAfterTheOtherIfOnlyThisOneSends) {
  turns_ = SendTurns(true);
  add(2, 5, 4);
  add(1, 5, 4);
  add(2, 5, 1);
  EXPECT_EQ(gone(), "2v5 2v5 2v5 2v5 2v5 ") << "it wanted the version first";
  for (int block = 0; block < 4; ++block) sent(2, 5);
  EXPECT_EQ(gone(), "1v5 1v5 ");
  sent(2, 5);
  EXPECT_EQ(gone(), "1v5 1v5 ");
  // Hosts get new places in an old version, and nothing is lost.
  for (int version = 6; version < 200; ++version) add(3, version, 1);
  for (int block = 0; block < 4; ++block) sent(1, 5);
  for (int version = 6; version < 200; ++version) sent(3, version);
  EXPECT_FALSE(turns_.waiting());
}

TEST_F(SendTurnsTest, AHostThatTakesNothingHoldsUpNobody) {
  add(1, 5, 4, 0);
  add(2, 6, 4, 500);
  turns_.go_on(at(999));
  EXPECT_EQ(gone(), "1v5 1v5 1v5 1v5 ");
  turns_.go_on(at(1000));
  EXPECT_EQ(gone(), "2v6 2v6 2v6 2v6 ");
  // The host takes blocks again, and counts again.
  sent(1, 5, 1100);
  add(3, 7, 1, 1200);
  EXPECT_EQ(gone(), "");
  for (int block = 0; block < 3; ++block) sent(1, 5, 1300);
  EXPECT_EQ(gone(), "") << "four of version 6";
  for (int block = 0; block < 2; ++block) sent(2, 6, 1400);
  EXPECT_EQ(gone(), "3v7 ");
}

TEST_F(SendTurnsTest, PatienceBeginsWithTheFirstBlock) {
  add(1, 5, 4, 0);
  for (int block = 0; block < 4; ++block) sent(1, 5, 10);
  add(1, 6, 4, 5000);
  add(2, 7, 1, 5500);
  EXPECT_EQ(gone(), "1v5 1v5 1v5 1v5 1v6 1v6 1v6 1v6 ") << "half a second";
}

}  // namespace
}  // namespace paceline::exchange

// The steps of a host that hears nothing of the coordinator, for several contents of the run folder.
#include "paceline/decisions/supervisor/leader_failover.h"

#include <gtest/gtest.h>

namespace paceline::supervisor {
namespace {

using std::chrono::seconds;
constexpr char kRun[] = "/runs/one";

class LeaderFailoverTest : public ::testing::Test {
 protected:
  void SetUp() override { host_.heard(kRun, start_); }
  // Does what a host does: looks when it is time to.
  LeaderFailover::Step after(LeaderFailover& host, int silent_s) const {
    const auto now = start_ + seconds(silent_s);
    return host.wants_to_look(now) ? host.look(folder_, now) : LeaderFailover::Step{};
  }
  LeaderFailover::Step after(int silent_s) { return after(host_, silent_s); }
  static bool nothing(const LeaderFailover::Step& step) {
    return std::holds_alternative<std::monostate>(step);
  }

  LeaderFailover::Seen folder_{{{HostRank(0), "10.0.0.1:7461"}}, false, false};
  const LeaderFailover::SteadyTime start_{std::chrono::hours(1)};
  LeaderFailover host_{HostRank(1), 30, "", start_};
};

TEST_F(LeaderFailoverTest, WaitsForACoordinatorThatWasHeardNotLongAgo) {
  EXPECT_TRUE(nothing(after(1)));
  EXPECT_FALSE(host_.wants_to_look(start_ + seconds(1)));
  EXPECT_TRUE(host_.wants_to_look(start_ + seconds(2)));
  EXPECT_TRUE(nothing(after(31)));
}

TEST_F(LeaderFailoverTest, LooksOnceASecond) {
  EXPECT_TRUE(nothing(after(2)));
  EXPECT_FALSE(host_.wants_to_look(start_ + seconds(2) + std::chrono::milliseconds(999)));
  EXPECT_TRUE(host_.wants_to_look(start_ + seconds(3)));
}

TEST_F(LeaderFailoverTest, LeadsWhereNobodyDoes) {
  const auto step = after(32);
  ASSERT_TRUE(std::holds_alternative<LeaderFailover::Lead>(step));
  EXPECT_EQ(std::get<LeaderFailover::Lead>(step).lost, HostRank(0));
  EXPECT_TRUE(nothing(after(33))) << "if it cannot, it tries again later";
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Lead>(after(64)));
}

// A host that is started again may have led the run itself.
TEST_F(LeaderFailoverTest, LosesNobodyWhereItLedItself) {
  folder_.leader->host = HostRank(1);
  const auto step = after(32);
  ASSERT_TRUE(std::holds_alternative<LeaderFailover::Lead>(step));
  EXPECT_EQ(std::get<LeaderFailover::Lead>(step).lost, std::nullopt);
}

TEST_F(LeaderFailoverTest, EachHostHasItsTurn) {
  LeaderFailover next(HostRank(2), 30, "", start_);
  next.heard(kRun, start_);
  EXPECT_TRUE(nothing(after(next, 33)));
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Lead>(after(next, 34)));
}

// All hosts were started again. The one that led asks its program before it listens.
TEST_F(LeaderFailoverTest, WaitsLongerForAHostThatItHasNotHeardYet) {
  LeaderFailover started(HostRank(1), 30, kRun, start_);
  EXPECT_TRUE(nothing(after(started, 301)));
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Lead>(after(started, 302)));
  LeaderFailover hasty(HostRank(1), 2, kRun, start_);
  EXPECT_TRUE(nothing(after(hasty, 21)));
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Lead>(after(hasty, 22)));
  LeaderFailover patient(HostRank(1), 600, kRun, start_);
  EXPECT_TRUE(nothing(after(patient, 601)));
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Lead>(after(patient, 602)));
}

TEST_F(LeaderFailoverTest, WaitsNoLongerThanUsualOnceItHasHeardOne) {
  LeaderFailover started(HostRank(1), 30, kRun, start_);
  started.heard(kRun, start_);
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Lead>(after(started, 32)));
}

// This host may be cut off, or the coordinator may hang.
TEST_F(LeaderFailoverTest, NeverLeadsWhereAnotherProcessHoldsTheFolder) {
  folder_.led = true;
  EXPECT_TRUE(nothing(after(1000)));
}

TEST_F(LeaderFailoverTest, GoesWhereTheRunIsLedFrom) {
  folder_.leader = {HostRank(2), "10.0.0.3:7461"};
  EXPECT_TRUE(nothing(after(1)));
  const auto step = after(3);
  ASSERT_TRUE(std::holds_alternative<LeaderFailover::Follow>(step));
  EXPECT_EQ(std::get<LeaderFailover::Follow>(step).leader.host, HostRank(2));
  EXPECT_EQ(std::get<LeaderFailover::Follow>(step).leader.address, "10.0.0.3:7461");
  EXPECT_TRUE(nothing(after(5))) << "once it is there, it waits there";
}

// Its machine was replaced, and its number and the folder went to another one.
TEST_F(LeaderFailoverTest, GoesWhereTheLeaderIsBackAtAnotherAddress) {
  EXPECT_TRUE(nothing(after(2)));
  folder_.leader->address = "10.0.0.9:7461";
  EXPECT_TRUE(nothing(after(3))) << "nobody is there yet";
  folder_.led = true;
  const auto step = after(4);
  ASSERT_TRUE(std::holds_alternative<LeaderFailover::Follow>(step));
  EXPECT_EQ(std::get<LeaderFailover::Follow>(step).leader.host, HostRank(0));
  EXPECT_EQ(std::get<LeaderFailover::Follow>(step).leader.address, "10.0.0.9:7461");
  EXPECT_TRUE(nothing(after(7))) << "once it is there, it waits there";
}

TEST_F(LeaderFailoverTest, GoesAfterALeaderThatItFollows) {
  folder_.leader = {HostRank(2), "10.0.0.3:7461"};
  folder_.led = true;
  ASSERT_TRUE(std::holds_alternative<LeaderFailover::Follow>(after(3)));
  folder_.leader->address = "10.0.0.9:7461";
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Follow>(after(6)));
}

TEST_F(LeaderFailoverTest, DoesNotFollowItselfToAnotherAddress) {
  LeaderFailover first(HostRank(0), 30, kRun, start_);
  folder_.led = true;
  EXPECT_TRUE(nothing(after(first, 2)));
  folder_.leader->address = "10.0.0.9:7461";
  EXPECT_TRUE(nothing(after(first, 4)));
}

TEST_F(LeaderFailoverTest, SeesThatTheRunIsOver) {
  folder_.over = true;
  EXPECT_TRUE(nothing(after(1)));
  EXPECT_TRUE(std::holds_alternative<LeaderFailover::Over>(after(3)));
}

// A host may be started again in the middle of a run.
TEST_F(LeaderFailoverTest, MayKnowTheRunFromItsStart) {
  LeaderFailover fresh(HostRank(1), 30, kRun, start_);
  EXPECT_FALSE(fresh.wants_to_look(start_ + seconds(1)));
  EXPECT_TRUE(fresh.wants_to_look(start_ + seconds(2)));
}

TEST_F(LeaderFailoverTest, DoesNothingBeforeItHasHeardOfARun) {
  LeaderFailover fresh(HostRank(1), 30, "", start_);
  EXPECT_FALSE(fresh.wants_to_look(start_ + seconds(1000)));
  folder_.leader.reset();
  EXPECT_TRUE(nothing(after(1000))) << "nobody can be read to have led it";
}

}  // namespace
}  // namespace paceline::supervisor

// Orders: numbered commits, releases on the newest of them, reasons in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/policy/sync_policy.h"
#include "paceline/decisions/policy/testing/checked_policy.h"
#include "paceline/decisions/policy/testing/short_names.h"

namespace paceline::policy {
namespace {

using policy::testing::kA;
using policy::testing::kB;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> lines(const Orders& orders) {
  std::vector<std::string> all;
  for (const Order& order : orders.list()) all.push_back(testing::to_string(order));
  return all;
}

TEST(Orders, CommitsAreNumberedAndReleasesAreOnTheNewest) {
  Orders orders(Version(7));
  orders.release(kA, {"first"});
  orders.commit({{kA, Clock(3)}, {kB, Clock(4)}}, {"together"});
  orders.commit({{kA, Clock(4)}}, {"alone"});
  orders.release(kB, {"last"});
  orders.discard({kB, Clock(5)}, {"void"});
  orders.wake_at(Time(std::chrono::milliseconds(1500)));
  EXPECT_THAT(lines(orders),
              ElementsAre("release 0 on 7: first", "commit 8 of 0@3 1@4: together", "commit 9 of 0@4: alone",
                          "release 1 on 9: last", "discard 1@5: void", "wake at 1.5 s"));
  EXPECT_EQ(orders.latest(), Version(9));
}

TEST(Orders, ForgettingThemKeepsTheNumbering) {
  Orders orders(Version(0));
  orders.commit({{kA, Clock(1)}}, {""});
  orders.clear();
  EXPECT_THAT(orders.list(), IsEmpty());
  orders.commit({{kA, Clock(2)}}, {"again"});
  EXPECT_THAT(lines(orders), ElementsAre("commit 2 of 0@2: again"));
}

TEST(Orders, MovingThemAwayForgetsThemToo) {
  Orders orders(Version(0));
  std::vector<Order> taken{WakeAt{Time{}}};
  orders.release(kA, {"go"});
  orders.release(kB, {"go"});
  orders.move_to(taken);
  EXPECT_THAT(orders.list(), IsEmpty());
  ASSERT_EQ(taken.size(), 2u) << "and what was there before is gone";
  EXPECT_EQ(std::get<Release>(taken[1]).replica, kB);
}

TEST(Reason, TakesItsNumbersWhenSomebodyAsks) {
  EXPECT_EQ(to_string(Reason{"nobody waits"}), "nobody waits");
  EXPECT_EQ(to_string(Reason{"{} of {}", 3, -4}), "3 of -4");
}

TEST(OrdersDeathTest, ACommitHasMembers) {
  Orders orders(Version(0));
  EXPECT_DEATH(orders.commit({}, {""}), "commit 1 has no member");
}

}  // namespace
}  // namespace paceline::policy

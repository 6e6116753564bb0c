// The facts that the policy between groups gets, and the effect of its orders. Whole schedules are in
// testdata/grouped.txt.
#include "paceline/decisions/policy/grouped.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Writes down what it is told. A replica that joins is released, if it is that kind; a gradient waits for the
// timer, which commits all.
class Told final : public SyncPolicy {
 public:
  explicit Told(std::vector<std::string>& lines) : lines_(lines) {}

  void joined(Time, const Joined& fact, Orders& orders) override {
    lines_.push_back(fmt::format("{} joined at {}", fact.replica, fact.clock));
    if (releases_joiners) orders.release(fact.replica, {"joined"});
  }
  // A gradient of the replica that waits is void, even if the policy says nothing.
  void left(Time, const Left& fact, Orders&) override {
    lines_.push_back(fmt::format("{} left", fact.replica));
    std::erase_if(waiting_, [&](const Contribution& one) { return one.replica == fact.replica; });
  }
  void ready(Time now, const Ready& fact, Orders& orders) override {
    lines_.push_back(fmt::format("{}@{} ready on {} with {} after {} s", fact.replica, fact.clock, fact.base,
                                 fact.samples, to_seconds(fact.compute)));
    waiting_.push_back({fact.replica, fact.clock});
    orders.wake_at(now + std::chrono::seconds(5));
  }
  void timer(Time, Orders& orders) override {
    orders.commit({waiting_.begin(), waiting_.end()}, {"the timer"});
    for (const Contribution& one : waiting_) orders.release(one.replica, {"the timer"});
    waiting_.clear();
  }
  void completed(Time, const Completed& fact, Orders& orders) override {
    lines_.push_back(fmt::format("{} is complete", fact.version));
    for (const Contribution& one : waiting_) {
      orders.discard(one, {"too late"});
      orders.release(one.replica, {"again"});
    }
    waiting_.clear();
  }
  bool hears_of_completion() const override { return true; }
  Bounds bounds() const override { return {.gap = 1, .version_staleness = 2, .quota = 3}; }

  bool releases_joiners = true;

 private:
  std::vector<std::string>& lines_;
  std::vector<Contribution> waiting_;
};

class GroupedTest : public ::testing::Test {
 protected:
  std::vector<std::string> join(int id, int clock) {
    return take([&](Orders& orders) { grouped_.joined(Time{}, {ReplicaId(id), Clock(clock)}, orders); });
  }
  std::vector<std::string> leave(int id) {
    return take([&](Orders& orders) { grouped_.left(Time{}, {ReplicaId(id)}, orders); });
  }
  std::vector<std::string> ready(int id, int clock, int base = 0, int samples = 1, int seconds = 1) {
    return take([&](Orders& orders) {
      grouped_.ready(Time{},
                     {ReplicaId(id), Clock(clock), Version(base), samples, std::chrono::seconds(seconds)},
                     orders);
    });
  }
  std::vector<std::string> timer() {
    return take([&](Orders& orders) { grouped_.timer(Time{}, orders); });
  }
  std::vector<std::string> completed(int version) {
    return take([&](Orders& orders) { grouped_.completed(Time{}, {Version(version)}, orders); });
  }
  // The facts that the policy between groups got since the last call.
  std::vector<std::string> told() { return std::exchange(told_, {}); }

  std::vector<std::string> told_;
  Told* inner_ = new Told(told_);  // grouped_ owns it
  Grouped grouped_{{2, 2}, std::unique_ptr<SyncPolicy>(inner_)};

 private:
  template <class Give>
  std::vector<std::string> take(const Give& give) {
    orders_.clear();
    give(orders_);
    std::vector<std::string> lines;
    for (const Order& order : orders_.list()) lines.push_back(testing::to_string(order));
    return lines;
  }

  Orders orders_{Version(7)};
};

TEST_F(GroupedTest, AGroupIsOneReplica) {
  EXPECT_THAT(join(4, 3), ElementsAre("release 4 on 7: joined"));
  EXPECT_THAT(join(5, 3),
              ElementsAre("release 5 on 7: joined: takes part in its group's iteration under way"));
  EXPECT_THAT(told(), ElementsAre("0 joined at 3"));
  EXPECT_THAT(ready(4, 4, 6, 30, 9), IsEmpty());
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_THAT(ready(5, 4, 5, 12, 2), ElementsAre("wake at 5 s"));
  EXPECT_THAT(told(), ElementsAre("0@4 ready on 5 with 42 after 9 s")) << "the longest, on the oldest";
  leave(4);
  EXPECT_THAT(told(), IsEmpty());
  leave(5);
  EXPECT_THAT(told(), ElementsAre("0 left"));
}

TEST_F(GroupedTest, TheTimerCompletionsAndDiscardsPassThrough) {
  for (int id = 0; id < 4; ++id) join(id, 0);
  for (int id = 0; id < 3; ++id) ready(id, 1);
  EXPECT_THAT(timer(), ElementsAre("commit 8 of 0@1 1@1: the timer", "release 0 on 8: the timer",
                                   "release 1 on 8: the timer"));
  ready(3, 1);
  told();
  EXPECT_THAT(completed(8), ElementsAre("discard 2@1: too late", "discard 3@1: too late",
                                        "release 2 on 8: again", "release 3 on 8: again"));
  EXPECT_THAT(told(), ElementsAre("8 is complete"));
  EXPECT_TRUE(grouped_.hears_of_completion());
}

TEST_F(GroupedTest, PromisesOnlyWhatHoldsOfReplicas) {
  EXPECT_EQ(grouped_.bounds().version_staleness, 2);
  EXPECT_EQ(grouped_.bounds().gap, std::nullopt);
  EXPECT_EQ(grouped_.bounds().quota, std::nullopt);
  EXPECT_EQ(grouped_.reduction(), Reduction::kInGroup);
}

TEST_F(GroupedTest, AGroupStartsLevelWithTheSlowestGroup) {
  for (int id = 0; id < 3; ++id) join(id, 2);
  ready(2, 3);
  timer();
  leave(2);
  told();
  join(3, 1);  // slower than any group, as one that joined another group and fell behind it would be
  EXPECT_THAT(told(), ElementsAre("1 joined at 2"));
  ready(3, 2);
  EXPECT_THAT(told(), ElementsAre("1@3 ready on 0 with 1 after 1 s"));
  EXPECT_THAT(timer(), ElementsAre("commit 9 of 3@2: the timer", "release 3 on 9: the timer"))
      << "contributions are named by the replica's own clock";
}

TEST_F(GroupedTest, AGroupJoinsAnewWhenTheOwnerOfItsGradientLeaves) {
  for (int id = 0; id < 3; ++id) join(id, 0);
  ready(2, 1);
  EXPECT_THAT(join(3, 0), IsEmpty()) << "its group waits";
  told();
  EXPECT_THAT(leave(2), ElementsAre("discard 2@1: left before its group's gradient was committed",
                                    "release 3 on 7: joined"));
  EXPECT_THAT(told(), ElementsAre("1 left", "1 joined at 0"));
}

TEST_F(GroupedTest, AGroupThatLeftStartsAnew) {
  join(0, 0);
  ready(0, 1);
  EXPECT_THAT(leave(0), ElementsAre("discard 0@1: left before its group's gradient was committed"));
  join(1, 0);
  join(2, 0);
  told();
  EXPECT_THAT(leave(1), IsEmpty()) << "what waited to be committed is long forgotten";
  EXPECT_THAT(told(), IsEmpty());
  leave(2);
  inner_->releases_joiners = false;
  EXPECT_THAT(join(3, 0), IsEmpty());
  EXPECT_THAT(join(4, 0), IsEmpty()) << "the group computed when it left, and does not now";
}

}  // namespace
}  // namespace paceline::policy

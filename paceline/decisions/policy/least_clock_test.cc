// LeastClock against the set that it stands for, and ClockBoard and HeldReplicas with it.
#include "paceline/decisions/policy/least_clock.h"

#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/policy/clock_board.h"

namespace paceline::policy {
namespace {

// The dumb one: everything in one set.
class Model {
 public:
  void set(ReplicaId replica, Clock clock) {
    erase(replica);
    clocks_[replica] = clock;
    sorted_.emplace(clock, replica);
  }
  void erase(ReplicaId replica) {
    const auto found = clocks_.find(replica);
    if (found == clocks_.end()) return;
    sorted_.erase({found->second, replica});
    clocks_.erase(found);
  }
  const std::set<std::pair<Clock, ReplicaId>>& sorted() const { return sorted_; }
  const std::map<ReplicaId, Clock>& clocks() const { return clocks_; }

 private:
  std::map<ReplicaId, Clock> clocks_;
  std::set<std::pair<Clock, ReplicaId>> sorted_;
};

TEST(LeastClock, IsThatOfASet) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const std::uint64_t replicas = 1 + rng.below(40);
    const std::uint64_t clocks = 1 + rng.below(10);
    LeastClock least;
    Model model;
    for (int step = 0; step < 300; ++step) {
      const ReplicaId replica(static_cast<std::int32_t>(rng.below(replicas)));
      if (rng.below(4) == 0) {
        least.set(replica, LeastClock::kNone);
        model.erase(replica);
      } else {
        const Clock clock(static_cast<std::int64_t>(rng.below(clocks)) - 3);
        least.set(replica, clock);
        model.set(replica, clock);
        ASSERT_EQ(least.of(replica), clock);
      }
      if (model.sorted().empty()) {
        ASSERT_EQ(least.least(), LeastClock::kNone);
        continue;
      }
      ASSERT_EQ(least.least(), model.sorted().begin()->first) << "seed " << seed << ", step " << step;
      ASSERT_EQ(least.whose(), model.sorted().begin()->second) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(LeastClock, KnowsNothingOfNumbersItNeverSaw) {
  LeastClock least;
  least.set(ReplicaId(2), Clock(5));
  EXPECT_EQ(least.of(ReplicaId(1)), LeastClock::kNone);
  EXPECT_EQ(least.of(ReplicaId(1000)), LeastClock::kNone);
  EXPECT_EQ(least.of(ReplicaId(-1)), LeastClock::kNone);
}

TEST(ClockBoard, KnowsTheSlowestAndTheFastest) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    ClockBoard board;
    Model model;
    for (int step = 0; step < 300; ++step) {
      const ReplicaId replica(static_cast<std::int32_t>(rng.below(20)));
      const auto mine = model.clocks().find(replica);
      ASSERT_EQ(board.live(replica), mine != model.clocks().end());
      if (mine == model.clocks().end()) {
        const Clock clock(static_cast<std::int64_t>(rng.below(5)));
        board.join(replica, clock);
        model.set(replica, clock);
      } else if (rng.below(10) == 0) {
        board.leave(replica);
        model.erase(replica);
      } else {
        board.finish(replica, mine->second.next());
        model.set(replica, mine->second.next());
      }
      ASSERT_EQ(board.size(), model.sorted().size());
      if (model.sorted().empty()) continue;
      ASSERT_EQ(board.slowest(), model.sorted().begin()->first);
      ASSERT_EQ(board.slowest_replica(), model.sorted().begin()->second);
      ASSERT_EQ(board.fastest(), model.sorted().rbegin()->first);
    }
  }
}

TEST(HeldReplicas, TheMostPatientGoFirst) {
  HeldReplicas held;
  held.hold(Clock(7), ReplicaId(1));
  held.hold(Clock(6), ReplicaId(4));
  held.hold(Clock(6), ReplicaId(2));
  held.hold(Clock(5), ReplicaId(3));
  held.drop(Clock(5), ReplicaId(3));
  held.drop(Clock(9), ReplicaId(4));
  ReplicaId replica;
  EXPECT_FALSE(held.take_within(Clock(5), &replica));
  for (const int expected : {2, 4}) {
    ASSERT_TRUE(held.take_within(Clock(6), &replica));
    EXPECT_EQ(replica, ReplicaId(expected));
  }
  EXPECT_FALSE(held.take_within(Clock(6), &replica));
  EXPECT_TRUE(held.take_within(Clock(7), &replica));
  EXPECT_FALSE(held.take_within(Clock(100), &replica));
}

}  // namespace
}  // namespace paceline::policy

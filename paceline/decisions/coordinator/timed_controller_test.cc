// A Controller in an attempt's time: when it wants to be woken, that records come before commits if they
// must, and that nothing comes after the end.
#include "paceline/decisions/coordinator/timed_controller.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using namespace std::chrono_literals;

// Commits nothing before its timer rings, then all gradients there are. It changes its mind about the time.
class Gather final : public policy::SyncPolicy {
 public:
  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    orders.release(fact.replica, {"joined"});
  }
  void left(Time, const policy::Left&, policy::Orders&) override {}
  void ready(Time now, const policy::Ready& fact, policy::Orders& orders) override {
    finished_.push_back({fact.replica, fact.clock});
    orders.wake_at(now + 1h);
    orders.wake_at(now);
    orders.wake_at(now + 3ms);
  }
  void timer(Time, policy::Orders& orders) override {
    orders.commit({finished_.begin(), finished_.end()}, {"the timer rang"});
    for (const policy::Contribution& one : finished_) orders.release(one.replica, {"committed"});
    finished_.clear();
  }
  policy::Bounds bounds() const override { return {}; }

 private:
  std::vector<policy::Contribution> finished_;
};

// The events in order: "release", "commit", "finish", "record 1" (with the number of orders), "keep", "wake
// in 3 ms".
class TimedControllerTest : public testing::Test {
 protected:
  static constexpr SteadyTime kStart{1h};

  TimedController make(std::int64_t samples, bool records_first = false) {
    return {{.dataset_size = samples, .total_samples = samples, .start_replicas = 2, .schedule = {}},
            std::make_unique<Gather>(),
            out_,
            [this](const control::Order& order, const TimedController::ReleasedNext& released) {
              if (std::holds_alternative<control::CommitRecord>(order)) released_next_ = released;
              out_.tell(std::holds_alternative<control::CommitRecord>(order) ? "commit"
                        : std::holds_alternative<control::Finish>(order)     ? "finish"
                        : std::holds_alternative<control::Release>(order)    ? "release"
                                                                             : "other");
            },
            records_first};
  }
  void join(TimedController& controller) {
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(controller.take(kStart, control::ReplicaJoined{ReplicaId(i), "w", 5}).ok());
  }
  void ready(TimedController& controller, SteadyTime at, int clock) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(
          controller.take(at, control::ReplicaReady{ReplicaId(i), Clock(clock), controller.version(), 0ns, 0})
              .ok());
    }
  }
  std::vector<std::string> said(SteadyTime since = kStart) {
    std::vector<std::string> lines;
    for (const Action& action : out_.take()) {
      if (const auto* tell = std::get_if<Tell>(&action)) lines.push_back(tell->line);
      if (const auto* record = std::get_if<Record>(&action))
        lines.push_back(fmt::format("record {}", record->orders.size()));
      if (std::holds_alternative<FlushRecords>(action)) lines.emplace_back("keep");
      if (const auto* wake = std::get_if<WakeUp>(&action))
        lines.push_back(fmt::format("wake in {} ms", (wake->at - since) / 1ms));
    }
    return lines;
  }

  using Lines = std::vector<std::string>;
  Outbox out_;
  TimedController::ReleasedNext released_next_;  // after the newest commit
};

TEST_F(TimedControllerTest, TheLastWakeIsTheOneThatCounts) {
  TimedController controller = make(20);
  EXPECT_FALSE(controller.started());
  join(controller);
  EXPECT_TRUE(controller.started());
  EXPECT_EQ(said(), (Lines{"record 0", "release", "release", "record 2"}));
  ready(controller, kStart + 10ms, 1);
  const Lines wakes = said(kStart + 10ms);
  EXPECT_EQ(wakes.back(), "record 3");
  EXPECT_EQ(wakes[wakes.size() - 2], "wake in 3 ms");
  EXPECT_TRUE(controller.take(kStart + 13ms, control::TimerRang{}).ok());
  EXPECT_EQ(said(), (Lines{"commit", "release", "release", "record 3"}));
}

TEST_F(TimedControllerTest, ACommitComesWithTheReplicasThatAreReleasedAfterIt) {
  TimedController controller = make(20);
  join(controller);
  ready(controller, kStart + 10ms, 1);
  EXPECT_TRUE(controller.take(kStart + 13ms, control::TimerRang{}).ok());
  EXPECT_EQ(released_next_, (TimedController::ReleasedNext{ReplicaId(0), ReplicaId(1)}));
  ready(controller, kStart + 20ms, 2);
  EXPECT_TRUE(controller.take(kStart + 23ms, control::TimerRang{}).ok());
  EXPECT_EQ(released_next_, TimedController::ReleasedNext{}) << "every sample is committed";
}

TEST_F(TimedControllerTest, TheTimeGoesOnFromWhereTheRunWasResumed) {
  TimedController controller = make(40);
  control::ControllerState state;
  state.version = Version(1);
  state.ledger.next = 20;
  state.clocks["w"] = Clock(2);
  ASSERT_TRUE(controller.restore(state, 2h).ok());
  EXPECT_EQ(controller.time(kStart + 5s), Time(2h));
  join(controller);
  EXPECT_EQ(controller.time(kStart + 5s), Time(2h + 5s));
  said();
  ready(controller, kStart + 5s, 3);
  const Lines wakes = said(kStart + 5s);
  EXPECT_EQ(wakes[wakes.size() - 2], "wake in 3 ms");
}

TEST_F(TimedControllerTest, ACommitIsCarriedOutOnceItIsRecorded) {
  TimedController controller = make(20, true);
  join(controller);
  EXPECT_EQ(said(), (Lines{"record 0", "release", "release", "record 2"}));
  ready(controller, kStart, 1);
  said();
  EXPECT_TRUE(controller.take(kStart + 3ms, control::TimerRang{}).ok());
  EXPECT_EQ(said(), (Lines{"record 3", "keep", "commit", "release", "release"}));
}

// All facts are recorded when the end is carried out.
TEST_F(TimedControllerTest, TheEndComesAfterTheRecords) {
  TimedController controller = make(10);
  join(controller);
  ready(controller, kStart, 1);
  said();
  EXPECT_TRUE(controller.take(kStart + 3ms, control::TimerRang{}).ok());
  const Lines lines = said();
  EXPECT_EQ(lines.front(), "commit");
  EXPECT_EQ(lines.back(), "finish");
  EXPECT_TRUE(controller.finished());
}

TEST_F(TimedControllerTest, NothingIsTakenAfterTheEnd) {
  TimedController controller = make(20);
  join(controller);
  ready(controller, kStart, 1);
  said();
  controller.end();
  EXPECT_TRUE(controller.take(kStart + 3ms, control::TimerRang{}).ok());
  EXPECT_TRUE(controller.take(kStart + 3ms, control::StopAsked{"enough"}).ok());
  EXPECT_TRUE(said().empty());
  EXPECT_EQ(controller.version(), Version(0));
}

TEST_F(TimedControllerTest, AStopEndsItWithATimerStillSet) {
  TimedController controller = make(20);
  join(controller);
  ready(controller, kStart, 1);
  EXPECT_TRUE(controller.take(kStart, control::StopAsked{"enough"}).ok());
  EXPECT_TRUE(controller.finished());
  EXPECT_EQ(said().back(), "finish");
  EXPECT_TRUE(controller.take(kStart + 3ms, control::TimerRang{}).ok());
  EXPECT_TRUE(said().empty());
}

}  // namespace
}  // namespace paceline::coordinator

// A Controller in real time, without peers: what a policy's timer does, and that nothing comes after the end.
// How late a timer is depends on the machine; that it is not early, and that it comes at all, does not.
#include "paceline/rpc/live_controller.h"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::rpc {
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

// Every replica is ready the moment it is released.
class LiveControllerTest : public testing::Test, public control::RunListener {
 protected:
  static constexpr std::int64_t kSamples = 40;

  void on_fact(const control::Fact& fact) override {
    if (!std::holds_alternative<control::TimerRang>(fact.what)) return;
    ++rung_;
    EXPECT_GE(fact.at, wake_at_);
  }
  void on_order(Time, const control::Order& order) override {
    if (const auto* wake = std::get_if<control::WakeAt>(&order)) wake_at_ = wake->at;
    if (const auto* commit = std::get_if<control::CommitRecord>(&order))
      committed_ = commit->committed_after();
  }
  void on_evaluated(const control::Evaluated&) override {}

  void carry_out(const control::Order& order) {
    EXPECT_FALSE(std::holds_alternative<control::WakeAt>(order));
    if (std::holds_alternative<control::Finish>(order)) loop_.stop();
    if (const auto* release = std::get_if<control::Release>(&order)) {
      loop_.post([this, replica = release->replica, clock = release->clock] {
        EXPECT_TRUE(live_.take(control::ReplicaReady{replica, clock, live_.version(), 0ns, 0}).ok());
      });
    }
  }
  void join(int replicas) {
    for (int i = 0; i < replicas; ++i)
      EXPECT_TRUE(live_.take(control::ReplicaJoined{ReplicaId(i), "w", 5}).ok());
  }

  Time wake_at_;
  int rung_ = 0;
  std::int64_t committed_ = 0;
  EventLoop loop_;
  LiveController live_{
      loop_,
      {.dataset_size = kSamples, .total_samples = kSamples, .start_replicas = 2, .schedule = {}},
      std::make_unique<Gather>(),
      {this},
      [this](const control::Order& order) { carry_out(order); }};
};

// Without a tick to wake the loop, a timer that is lost or an hour late hangs this.
TEST_F(LiveControllerTest, ALaterWakeReplacesAnEarlierOneAndRingsAtItsTime) {
  join(2);
  loop_.run(1h, [] {});
  EXPECT_EQ(committed_, kSamples);
  EXPECT_EQ(rung_, 4) << "40 samples, 2 × 5 of them each time";
}

TEST_F(LiveControllerTest, TheTimeGoesOnFromWhereTheRunWasResumed) {
  control::ControllerState state;
  state.version = Version(1);
  state.ledger.next = 20;
  state.clocks["w"] = Clock(2);
  ASSERT_TRUE(live_.restore(state, 2h).ok());
  EXPECT_EQ(live_.now(), Time(2h));
  join(2);
  loop_.run(1h, [] {});
  EXPECT_EQ(committed_, kSamples);
  EXPECT_EQ(rung_, 2);
  EXPECT_GE(wake_at_, Time(2h));
}

// What happens around commits, in order: "shown" to the books, "kept" by them, "carried out".
class BooksFirst : public LiveControllerTest {
 protected:
  void on_fact(const control::Fact&) override {}
  void on_order(Time at, const control::Order& order) override {
    LiveControllerTest::on_order(at, order);
    if (std::holds_alternative<control::CommitRecord>(order)) happened_.emplace_back("shown");
  }

  LiveController keeping(absl::Status kept) {
    return {loop_,
            {.dataset_size = 5, .total_samples = 5, .start_replicas = 1, .schedule = {}},
            std::make_unique<Gather>(),
            {this},
            [this](const control::Order& order) {
              if (std::holds_alternative<control::CommitRecord>(order)) happened_.emplace_back("carried out");
              if (const auto* release = std::get_if<control::Release>(&order)) released_ = release->clock;
            },
            [this, kept] {
              happened_.emplace_back("kept");
              return kept;
            }};
  }
  void commit(LiveController& live) {
    EXPECT_TRUE(live.take(control::ReplicaJoined{ReplicaId(0), "w", 5}).ok());
    EXPECT_TRUE(live.take(control::ReplicaReady{ReplicaId(0), released_, Version(0), 0ns, 0}).ok());
    EXPECT_TRUE(live.take(control::TimerRang{}).ok());
  }

  Clock released_;
  std::vector<std::string> happened_;
};

TEST_F(BooksFirst, ACommitIsCarriedOutOnceTheBooksHaveIt) {
  LiveController live = keeping(absl::OkStatus());
  commit(live);
  EXPECT_EQ(happened_, (std::vector<std::string>{"shown", "kept", "carried out"}));
}

TEST_F(BooksFirst, WhereBooksCannotBeKeptThatIsTheEnd) {
  LiveController live = keeping(absl::ResourceExhaustedError("disk full"));
  commit(live);
  EXPECT_EQ(happened_, (std::vector<std::string>{"shown", "kept"}));
  EXPECT_TRUE(live.take(control::StopAsked{"enough"}).ok());
  EXPECT_EQ(happened_.size(), 2U);
}

TEST_F(LiveControllerTest, NothingRingsAndNothingIsTakenAfterTheEnd) {
  join(2);
  loop_.post([this] { live_.end(); });  // behind the two that are ready
  Timer stop(loop_, [this] { loop_.stop(); });
  loop_.post([&] { stop.set(std::chrono::steady_clock::now() + 10ms); });
  loop_.run(1h, [] {});
  EXPECT_EQ(rung_, 0);
  EXPECT_TRUE(live_.take(control::TimerRang{}).ok());
  EXPECT_EQ(rung_, 0);
  EXPECT_EQ(committed_, 0);
}

TEST_F(LiveControllerTest, AStopEndsItWithATimerStillSet) {
  join(2);
  loop_.post([this] { EXPECT_TRUE(live_.take(control::StopAsked{"enough"}).ok()); });
  loop_.run(1h, [] {});
  EXPECT_TRUE(live_.finished());
  EXPECT_EQ(rung_, 0);
}

}  // namespace
}  // namespace paceline::rpc

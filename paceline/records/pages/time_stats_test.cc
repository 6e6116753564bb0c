#include "paceline/records/stats/time_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/pages/time_json.h"
#include "paceline/records/stats/example_run.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/tables/time_table.h"

namespace paceline::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Keeps everything, and finds the causes the slow way: for each stretch between two events it looks back for
// the replica's latest event and order, and ahead for the next.
class SlowLedger final : public control::RunListener {
 public:
  void on_fact(const control::Fact& fact) override { told_.push_back({fact.at, fact.what, {}}); }
  void on_order(Time, const control::Order& order) override { told_.back().orders.push_back(order); }
  void on_evaluated(const control::Evaluated&) override {}

  // The time of a replica by cause and by the replica that it waited for.
  std::map<std::pair<TimeCause, std::string>, Duration> spent(ReplicaId replica) const {
    std::map<std::pair<TimeCause, std::string>, Duration> all;
    for (std::size_t i = 0; i + 1 < told_.size(); ++i) {
      const Duration length = told_[i + 1].at - told_[i].at;
      if (length > Duration::zero()) all[between(replica, i)] += length;
    }
    return all;
  }

 private:
  struct Told {
    Time at;
    decltype(control::Fact::what) what;
    std::vector<control::Order> orders;
  };
  enum class Last { kNothing, kReleased, kReady, kParked, kLeft };

  static bool released(const Told& told, ReplicaId replica) {
    return std::any_of(told.orders.begin(), told.orders.end(), [&](const control::Order& order) {
      const auto* release = std::get_if<control::Release>(&order);
      return release != nullptr && release->replica == replica;
    });
  }
  static bool parked(const Told& told, ReplicaId replica) {
    return std::any_of(told.orders.begin(), told.orders.end(), [&](const control::Order& order) {
      const auto* park = std::get_if<control::Park>(&order);
      return park != nullptr && park->replica == replica;
    });
  }
  static Last last(const Told& told, ReplicaId replica) {
    if (released(told, replica)) return Last::kReleased;
    if (parked(told, replica)) return Last::kParked;
    if (const auto* ready = std::get_if<control::ReplicaReady>(&told.what);
        ready && ready->replica == replica)
      return Last::kReady;
    if (const auto* left = std::get_if<control::ReplicaLeft>(&told.what); left && left->replica == replica)
      return Last::kLeft;
    return Last::kNothing;
  }
  std::string whose(std::size_t i) const {
    std::optional<ReplicaId> id;
    if (const auto* ready = std::get_if<control::ReplicaReady>(&told_[i].what)) id = ready->replica;
    if (const auto* left = std::get_if<control::ReplicaLeft>(&told_[i].what)) id = left->replica;
    for (const Told& told : told_) {
      const auto* joined = std::get_if<control::ReplicaJoined>(&told.what);
      if (joined != nullptr && id == joined->replica) return joined->name;
    }
    return "";
  }
  std::pair<TimeCause, std::string> between(ReplicaId replica, std::size_t i) const {
    Last before = Last::kNothing;
    for (std::size_t k = i + 1; k-- > 0 && before == Last::kNothing;) before = last(told_[k], replica);
    Last after = Last::kNothing;
    std::size_t next = i;
    while (after == Last::kNothing && next + 1 < told_.size()) after = last(told_[++next], replica);
    if (before == Last::kNothing) return {TimeCause::kStarting, ""};
    if (before == Last::kReleased)
      return {after == Last::kLeft ? TimeCause::kRecovering : TimeCause::kComputing, ""};
    if (before == Last::kParked) return {TimeCause::kParked, ""};
    if (before == Last::kLeft) return {TimeCause::kGone, ""};
    return {TimeCause::kWaiting, after == Last::kNothing || after == Last::kLeft ? "" : whose(next)};
  }

  std::vector<Told> told_;
};

class Both final : public control::RunListener {
 public:
  Both(control::RunListener& one, control::RunListener& other) : one_(one), other_(other) {}
  void on_fact(const control::Fact& fact) override {
    one_.on_fact(fact);
    other_.on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override {
    one_.on_order(at, order);
    other_.on_order(at, order);
  }
  void on_evaluated(const control::Evaluated& evaluated) override {
    one_.on_evaluated(evaluated);
    other_.on_evaluated(evaluated);
  }

 private:
  control::RunListener& one_;
  control::RunListener& other_;
};

TimeLedger ledger_of(const ExampleJob& job, const std::string& policy) {
  TimeStats stats({});
  const Time end = run_example(job, policy, stats);
  return stats.ledger(end);
}

const DeviceTime& spent_by(const TimeLedger& ledger, const std::string& name) {
  for (const DeviceTime& one : ledger.devices) {
    if (one.device == name) return one;
  }
  ADD_FAILURE() << "no " << name;
  return ledger.devices.front();
}

class TimeOfPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(TimeOfPolicy, IsWhatSlowBooksSay) {
  ExampleJob job = uneven_four();
  job.jitter = 0.4;
  job.replicas[1].leaves_at_s = 1.234;
  TimeStats stats({});
  SlowLedger slow;
  Both both(stats, slow);
  const TimeLedger ledger = stats.ledger(run_example(job, GetParam(), both));
  const TimeLedger done = stats.ledger(ledger.until);
  ASSERT_EQ(done.devices.size(), 4u);
  for (std::int32_t id = 0; id < 4; ++id) {
    const DeviceTime& fast = done.devices[static_cast<std::size_t>(id)];
    EXPECT_EQ(fast.total(), done.wall()) << fast.device;
    std::map<TimeCause, Duration> causes;
    std::map<std::string, Duration> waits, fast_waits;
    for (const auto& [cause, time] : slow.spent(ReplicaId(id))) {
      causes[cause.first] += time;
      if (cause.first == TimeCause::kWaiting) waits[cause.second] += time;
    }
    for (const Wait& wait : fast.waits) fast_waits[wait.on] += wait.time;
    EXPECT_EQ(fast_waits, waits) << fast.device;
    for (std::size_t i = 0; i < kTimeCauses; ++i) {
      const auto cause = static_cast<TimeCause>(i);
      EXPECT_EQ(fast.of(cause), causes[cause]) << fast.device << " " << to_string(cause);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, TimeOfPolicy, ::testing::ValuesIn(policy::example_policies()));

TEST(TimeStats, UnderBspAllWaitForTheSlowest) {
  const TimeLedger ledger = ledger_of(uneven_four(), "bsp");
  const DeviceTime& fast = spent_by(ledger, "w0");
  EXPECT_EQ(fast.of(TimeCause::kComputing) * 2, fast.of(TimeCause::kWaiting));
  ASSERT_EQ(fast.waits.size(), 1u);
  EXPECT_EQ(fast.waits[0], (Wait{"w3", "all … live replicas are ready", fast.of(TimeCause::kWaiting)}));
  EXPECT_EQ(what_holds_back(ledger, "bsp"),
            "w3 takes 3.0 times as long as the others: under BSP they wait 67 % of their time for it");
}

TEST(TimeStats, NobodyWaitsUnderAsp) {
  EXPECT_THAT(what_holds_back(ledger_of(uneven_four(), "asp"), "asp"), HasSubstr("nothing holds it back"));
}

TEST(TimeStats, EqualDevicesWaitForEachOther) {
  ExampleJob job = uneven_four();
  job.replicas[3].iteration_s = 0.1;
  job.jitter = 0.8;
  EXPECT_THAT(what_holds_back(ledger_of(job, "bsp"), "bsp, joint"),
              HasSubstr("wait for each other in turn: under BSP, joint "));
}

// Facts and orders made by hand.
class TimeByHand : public ::testing::Test {
 protected:
  static Time at(double s) { return Time(from_seconds(s)); }
  void join(double s, int id, const std::string& name) {
    stats_.on_fact({at(s), control::ReplicaJoined{ReplicaId(id), name, 8}});
  }
  void leave(double s, int id) { stats_.on_fact({at(s), control::ReplicaLeft{ReplicaId(id), "crashed"}}); }
  void ready(double s, int id, double compute_s) {
    stats_.on_fact(
        {at(s), control::ReplicaReady{ReplicaId(id), Clock(1), Version(0), from_seconds(compute_s)}});
  }
  void release(double s, int id) {
    stats_.on_order(at(s), control::Release{ReplicaId(id), Clock(1), Version(0), {}, {"{} ahead: wait", 3}});
  }
  void finish(double s) { stats_.on_order(at(s), control::Finish{"enough"}); }
  double of(const std::string& name, TimeCause cause, double now_s = 0) {
    const TimeLedger ledger = stats_.ledger(at(now_s));
    const DeviceTime& found = spent_by(ledger, name);
    EXPECT_EQ(found.total(), ledger.wall());
    return to_seconds(found.of(cause));
  }

  TimeStats stats_{{"w0", "w1", "w2"}};
};

TEST_F(TimeByHand, UnexplainedTimeWasOnTheWay) {
  join(0, 0, "w0");
  release(2, 0);
  ready(5, 0, 2.5);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kStarting), 2);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing), 2.5);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kOnTheWay), 0.5);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kWaiting, 6), 1);
}

TEST_F(TimeByHand, LoadingAndWaitingForWeightsAreNoComputing) {
  const auto told = [&](double s, double loading_s, double pulling_s) {
    release(s, 0);
    control::ReplicaReady fact{ReplicaId(0), Clock(1), Version(0), from_seconds(4)};
    fact.loading = from_seconds(loading_s);
    fact.pulling = from_seconds(pulling_s);
    stats_.on_fact({at(s + 5), fact});
  };
  join(0, 0, "w0");
  told(0, 1, 0.5);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kLoading), 1);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kWeights), 0.5);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing), 2.5);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kOnTheWay), 1);
  EXPECT_EQ(stats_.ledger(at(5)).replicas[0].computed, from_seconds(3.5)) << "it is no slower for that";
  told(5, 3, 9);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kWeights), 1.5) << "no more than there was";
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing), 2.5);
}

TEST_F(TimeByHand, AReportLongerThanTheIterationIsCut) {
  join(0, 0, "w0");
  release(0, 0);
  ready(1, 0, 7);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing), 1);
}

TEST_F(TimeByHand, ADeviceThatComesBackRecovered) {
  join(0, 0, "w0");
  release(0, 0);
  leave(3, 0);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kRecovering, 4), 4) << "the lost iteration is part of it";
  join(5, 1, "w0");
  release(6, 1);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kRecovering, 7), 6);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing, 7), 1);
}

TEST_F(TimeByHand, ADeviceThatStaysAwayIsGoneOnceTheRunHasEnded) {
  join(0, 0, "w0");
  join(0, 1, "w1");
  leave(1, 0);
  finish(4);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kStarting), 1);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kGone, 9), 3);
}

TEST_F(TimeByHand, ADeviceThatIsBackBeforeItsCrashIsNoticedIsOneDevice) {
  join(0, 0, "w0");
  release(0, 0);
  join(2, 1, "w0");
  release(2, 1);
  leave(3, 0);
  ready(4, 1, 2);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kRecovering, 5), 2);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing, 5), 2);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kWaiting, 5), 1);
}

TEST_F(TimeByHand, AReleaseByATimerNamesNobodyAndOneByTheServersThem) {
  join(0, 0, "w0");
  release(0, 0);
  ready(1, 0, 1);
  stats_.on_fact({at(3), control::TimerRang{}});
  release(3, 0);
  ready(4, 0, 1);
  stats_.on_fact({at(5), control::CommitComplete{Version(1)}});
  release(5, 0);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kWaiting), 2);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kServers), 1);
  const TimeLedger ledger = stats_.ledger(at(5));
  ASSERT_EQ(ledger.waits.size(), 2u);
  EXPECT_EQ(ledger.waits[0], (Wait{"", "… ahead", from_seconds(2)}));
  EXPECT_EQ(ledger.waits[1], (Wait{"the servers", "… ahead", from_seconds(1)}));
}

TEST_F(TimeByHand, StagesWaitForEachOtherWhereBatchesTell) {
  join(0, 0, "w0+w2");
  join(0, 1, "w1");
  release(0, 0);
  release(0, 1);
  ready(10, 0, 10);
  ready(10, 1, 10);
  stats_.on_order(at(10),
                  control::BatchDone{.at = at(10),
                                     .work = {{.device = 0, .samples = 8, .computed = from_seconds(9)},
                                              {.device = 1, .samples = 8, .computed = from_seconds(10)},
                                              {.device = 2, .samples = 8, .computed = from_seconds(4)}}});
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kStages), 1);
  EXPECT_DOUBLE_EQ(of("w1", TimeCause::kStages), 0);
  EXPECT_DOUBLE_EQ(of("w2", TimeCause::kStages), 6);
  EXPECT_DOUBLE_EQ(of("w2", TimeCause::kComputing), 4);
}

TEST_F(TimeByHand, ADeviceThatNoPlanUsesIsParkedAndOneThatDoesNotComeStarts) {
  stats_.on_order(at(0), control::PlanAdopted{
                             .at = at(0), .plan = {.replicas = {{{0}, {}, 8}, {{1}, {}, 8}}}, .why = ""});
  join(0, 0, "w0");
  release(0, 0);
  ready(4, 0, 4);
  EXPECT_DOUBLE_EQ(of("w1", TimeCause::kStarting), 4);
  EXPECT_DOUBLE_EQ(of("w2", TimeCause::kParked), 4);
}

TEST_F(TimeByHand, TimeOffTheJobsClockCountsForEveryDevice) {
  join(0, 0, "w0");
  release(0, 0);
  ready(4, 0, 4);
  TimeLedger ledger = stats_.ledger(at(4));
  ledger.add_off_clock(from_seconds(2), from_seconds(3));
  EXPECT_EQ(ledger.wall(), from_seconds(9));
  EXPECT_EQ(spent_by(ledger, "w0").of(TimeCause::kRecovering), from_seconds(3));
  for (const DeviceTime& device : ledger.devices) EXPECT_EQ(device.total(), ledger.wall());
  EXPECT_THAT(what_holds_back(ledger, "bsp"), HasSubstr("the run was down, or did lost work again, "));
}

TEST_F(TimeByHand, SettledTimesNeverFall) {
  join(0, 0, "w0+w2");
  release(0, 0);
  const auto settled = [&](const std::string& name, TimeCause cause) {
    return to_seconds(spent_by(stats_.settled(), name).of(cause));
  };
  EXPECT_DOUBLE_EQ(settled("w0", TimeCause::kComputing), 0) << "it may come to nothing";
  ready(10, 0, 8);
  EXPECT_DOUBLE_EQ(settled("w0", TimeCause::kOnTheWay), 2);
  EXPECT_DOUBLE_EQ(settled("w0", TimeCause::kComputing), 0) << "a part of it may be waiting for w2";
  stats_.on_order(
      at(10),
      control::BatchDone{.at = at(10), .work = {{.device = 0, .samples = 8, .computed = from_seconds(5)}}});
  EXPECT_DOUBLE_EQ(settled("w0", TimeCause::kComputing), 5);
  EXPECT_DOUBLE_EQ(settled("w0", TimeCause::kStages), 3);
}

TEST_F(TimeByHand, ARunThatWasStoppedAndGoesOnIsOneRun) {
  join(0, 0, "w0");
  release(0, 0);
  ready(1, 0, 1);
  finish(1);
  leave(1, 0);
  join(1, 0, "w0");
  release(1, 0);
  ready(3, 0, 2);
  finish(3);
  EXPECT_DOUBLE_EQ(of("w0", TimeCause::kComputing), 3);
}

TEST(TimeStats, KeepsTheLongestWaitsOfManyDevices) {
  ExampleJob job;
  job.samples = 32 * 40'000;
  job.jitter = 0.9;
  for (int i = 0; i < 200; ++i) job.replicas.push_back({.name = "w" + std::to_string(i), .iteration_s = 0.1});
  const TimeLedger ledger = ledger_of(job, "bsp");
  const DeviceTime& first = ledger.devices.front();
  EXPECT_LE(first.waits.size(), 2 * TimeStats::kMostWaits + 1);
  Duration sum{0};
  bool others = false;
  for (const Wait& wait : first.waits) {
    sum += wait.time;
    others = others || wait.on == "others";
  }
  EXPECT_EQ(sum, first.of(TimeCause::kWaiting));
  EXPECT_TRUE(others);
}

TEST(TimeTable, HasWhatThereIs) {
  TimeStats stats({});
  const Time end = run_example(uneven_four(), "bsp", stats);
  Summary summary;
  summary.run.policy = "bsp";
  const std::string text = time_table(stats.ledger(end), summary, 3);
  EXPECT_THAT(text, HasSubstr("device   computing  waiting  wall s\n"));
  EXPECT_THAT(text, HasSubstr("w0            2.50     5.00    7.50\n"));
  EXPECT_THAT(text, HasSubstr("all (%)       50.0     50.0       –\n"));
  EXPECT_THAT(text, HasSubstr("and 1 more devices\n"));
  EXPECT_THAT(text, HasSubstr("w3          15.0  100.0  all … live replicas are ready\n"));
  EXPECT_THAT(text, Not(HasSubstr("recovering")));
}

TEST(TimeJson, HasAKeyForEachCause) {
  const Json json = time_json(ledger_of(uneven_four(), "bsp"), "bsp");
  const Json& first = json.at("devices").at(0);
  double sum = 0;
  for (const char* key : {"computing_s", "loading_s", "weights_s", "waiting_s", "servers_s", "on_the_way_s",
                          "stages_s", "starting_s", "recovering_s", "no_work_s", "gone_s"})
    sum += first.at(key).get<double>();
  EXPECT_NEAR(sum, json.at("wall_s").get<double>(), 1e-6);
  EXPECT_EQ(first.at("waits").at(0).at("on"), "w3");
}

}  // namespace
}  // namespace paceline::report

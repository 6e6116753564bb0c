// The folds of a run that its pages show: recent speeds and rates, moving lanes, the ledger of late; and the
// parts that are made of them.
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/stats/example_run.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/stats/testing/moments.h"
#include "paceline/records/stats/time_stats.h"
#include "paceline/records/tables/time_table.h"
#include "paceline/tools/ui/ledger_window.h"
#include "paceline/tools/ui/live_parts.h"
#include "paceline/tools/ui/moving_lanes.h"
#include "paceline/tools/ui/recent.h"
#include "paceline/tools/ui/top_screen.h"

namespace paceline::ui {
namespace {

using report::Json;
using report::testing::at;

// All folds that the pages have of a run.
struct Watched final : control::RunListener {
  explicit Watched(report::RunInfo info)
      : policy(info.policy), stats(info), time(info.devices), lanes(info.devices) {}
  void on_fact(const control::Fact& fact) override {
    stats.on_fact(fact);
    time.on_fact(fact);
    lanes.on_fact(fact);
    recent.on_fact(fact);
  }
  void on_order(Time when, const control::Order& order) override {
    stats.on_order(when, order);
    time.on_order(when, order);
    lanes.on_order(when, order);
    recent.on_order(when, order);
  }
  void on_evaluated(const control::Evaluated& evaluated) override { stats.on_evaluated(evaluated); }

  RunFollower::Parts parts(Time now, RunState state = RunState::kTraining) {
    const report::Summary summary = stats.summary(now);
    const report::History history = stats.history(now, report::RunStats::Lanes::kNone);
    const report::TimeLedger ledger = time.ledger(now);
    const StateOfRun of_run{state, ""};
    const LiveRun run{summary, history, ledger, window.of_late(ledger), recent, lanes, of_run, now, traffic};
    return {{"head", head_json(run)},       {"curves", curves_json(run)}, {"lanes", lanes_json(run)},
            {"devices", devices_json(run)}, {"groups", groups_json(run)}, {"events", events_json(run)},
            {"plan", plan_json(run)},       {"time", time_json(run)}};
  }

  const std::string policy;
  report::RunStats stats;
  report::TimeStats time;
  MovingLanes lanes;
  Recent recent;
  LedgerWindow window;
  Traffic traffic;
};

report::RunInfo info_of(const std::string& policy, std::int64_t samples) {
  report::RunInfo info;
  info.title = "job";
  info.policy = policy;
  info.total_samples = samples;
  info.epoch_samples = samples;
  return info;
}

// Four replicas, the last one three times slower; or many equal ones.
std::unique_ptr<Watched> watched(const std::string& policy, Time* end,
                                 report::ExampleJob job = report::uneven_four()) {
  auto all = std::make_unique<Watched>(info_of(policy, job.samples));
  *end = report::run_example(job, policy, *all);
  return all;
}

TEST(RecentTest, SpeedsAreSamplesOverTheTimeThatTheyTook) {
  Time end;
  const auto run = watched("asp", &end);
  const report::ExampleJob job = report::uneven_four();
  for (std::size_t i = 0; i < job.replicas.size(); ++i) {
    const Speed speed = run->recent.speed(ReplicaId(static_cast<std::int32_t>(i)));
    ASSERT_TRUE(speed.now.has_value());
    EXPECT_NEAR(*speed.now, static_cast<double>(job.batch) / job.replicas[i].iteration_s, 1e-6) << i;
  }
  EXPECT_NEAR(*run->recent.median_speed(), static_cast<double>(job.batch) / job.replicas[0].iteration_s,
              1e-6);
  EXPECT_FALSE(run->recent.speed(ReplicaId(17)).now.has_value());
}

TEST(RecentTest, ADeviceThatBecomesSlowerIsSlowerThanItsPast) {
  Recent recent;
  recent.on_fact({at(0), control::ReplicaJoined{ReplicaId(0), "w0", 8}});
  double now = 0;
  for (int i = 0; i < 40; ++i) {
    const double took = i < 24 ? 0.1 : 0.3;
    recent.on_order(
        at(now), control::Release{ReplicaId(0), Clock(i), Version(i), {0, 8 * i, 8 * (i + 1)}, {"", 0, 0}});
    now += took;
    recent.on_fact({at(now), control::ReplicaReady{ReplicaId(0), Clock(i), Version(i), from_seconds(took)}});
  }
  const Speed speed = recent.speed(ReplicaId(0));
  EXPECT_NEAR(*speed.now, 8 / 0.3, 1e-6);
  EXPECT_NEAR(*speed.past, 8 / 0.1, 1e-6);
}

TEST(RecentTest, TheRateIsThatOfTheLatestSecondsAndFallsWhenNothingComes) {
  Recent recent;
  for (int i = 0; i < 1000; ++i) {
    control::CommitRecord commit;
    commit.version = Version(i + 1);
    commit.samples = i < 500 ? 1 : 10;
    commit.committed_before = i < 500 ? i : 500 + 10 * (i - 500);
    recent.on_order(at(0.05 * i), commit);
    for (const int server : {0, 2})
      recent.on_side_work({.at = at(0.05 * i),
                           .version = Version(i + 1),
                           .took = from_seconds(server == 2 && i > 900 ? 0.02 : 0.01),
                           .server = server,
                           .bytes = 1'000'000});
  }
  EXPECT_NEAR(*recent.samples_per_s(at(49.95)), 200, 3);
  EXPECT_LT(*recent.samples_per_s(at(55)), 120);
  EXPECT_EQ(*recent.samples_per_s(at(80)), 0);
  EXPECT_NEAR(*recent.update_s(), 0.02, 1e-6) << "of the slowest";
  EXPECT_EQ(recent.updates().at(2).count, 1000);
  EXPECT_NEAR(recent.updates().at(2).seconds, 10.99, 1e-6);
  EXPECT_NEAR(recent.updates().at(0).gb_per_s, 0.1, 1e-6);
  EXPECT_NEAR(static_cast<double>(recent.version_at(at(25))), 500, 5);
  EXPECT_FALSE(Recent().samples_per_s(at(1)).has_value());
}

TEST(RecentTest, UpdatesThatAreFarApartHaveARateBetweenThem) {
  Recent recent;
  for (int i = 0; i < 5; ++i) {
    control::CommitRecord commit;
    commit.version = Version(i + 1);
    commit.samples = 300;
    commit.committed_before = 300 * i;
    recent.on_order(at(30 * i), commit);
  }
  EXPECT_NEAR(*recent.samples_per_s(at(121)), 10, 1e-6);
  EXPECT_GT(*recent.samples_per_s(at(145)), 5);
  EXPECT_EQ(*recent.samples_per_s(at(300)), 0);
}

TEST(RecentTest, ReasonsOfLeavingAreFewWhateverIsSaid) {
  Recent recent;
  for (int i = 0; i < 100; ++i) {
    recent.on_fact({at(i), control::ReplicaLeft{ReplicaId(0), "resumed from version " + std::to_string(i)}});
    recent.on_fact(
        {at(i), control::ReplicaLeft{ReplicaId(0), std::string(static_cast<std::size_t>(i + 1), 'x')}});
  }
  EXPECT_EQ(recent.left_by_reason().at("resumed from version #"), 100);
  EXPECT_LE(recent.left_by_reason().size(), Recent::kMostReasons + 1);
}

TEST(LedgerWindowTest, TheDifferenceIsWhatCameSince) {
  report::TimeLedger before, now;
  before.until = at(10);
  before.devices = {{"w0", {}, {}}};
  before.devices[0].spent[0] = from_seconds(4);
  before.waits = {{"w3", "rule", from_seconds(2)}};
  before.replicas = {{"w0", 4, from_seconds(4)}};
  now = before;
  now.until = at(30);
  now.devices[0].spent[0] = from_seconds(9);
  now.devices.push_back({"w1", {}, {}});
  now.devices[1].spent[static_cast<std::size_t>(report::TimeCause::kWaiting)] = from_seconds(4);
  now.waits = {{"w3", "rule", from_seconds(5)}, {"w1", "rule", from_seconds(1)}};
  now.replicas = {{"w0", 9, from_seconds(9)}, {"w1", 1, from_seconds(1)}};
  const report::TimeLedger late = difference(now, before);
  EXPECT_EQ(late.wall(), from_seconds(20));
  EXPECT_EQ(late.devices[0].of(report::TimeCause::kComputing), from_seconds(5));
  EXPECT_EQ(late.devices[1].of(report::TimeCause::kWaiting), from_seconds(4));
  EXPECT_THAT(late.waits, testing::ElementsAre(report::Wait{"w3", "rule", from_seconds(3)},
                                               report::Wait{"w1", "rule", from_seconds(1)}));
  EXPECT_EQ(late.replicas[0].iterations, 5);
  EXPECT_EQ(difference(before, now).devices[0].of(report::TimeCause::kComputing), Duration::zero());
}

// Before it ends nobody knows whom a wait is for. All of it counts as a wait for w3 since, and 35 s of it were before.
TEST(LedgerWindowTest, AWaitThatBeganEarlierCountsFromTheStart) {
  const auto waiting = static_cast<std::size_t>(report::TimeCause::kWaiting);
  const auto computing = static_cast<std::size_t>(report::TimeCause::kComputing);
  report::TimeLedger before, now;
  before.until = at(45);
  before.devices = {{"w0", {}, {}}, {"w3", {}, {}}};
  before.devices[0].spent[computing] = from_seconds(10);
  before.devices[0].spent[waiting] = from_seconds(35);
  before.devices[1].spent[computing] = from_seconds(45);
  before.waits = {{"", "the run ended first", from_seconds(35)}};
  before.replicas = {{"w0", 1, from_seconds(10)}, {"w3", 0, from_seconds(0)}};
  now = before;
  now.until = at(65);
  now.devices[0].spent[computing] = from_seconds(15);
  now.devices[0].spent[waiting] = from_seconds(50);
  now.devices[1].spent[computing] = from_seconds(65);
  report::TimeLedger meanwhile = now;
  meanwhile.waits = {{"", "the run ended first", from_seconds(50)}};
  EXPECT_EQ(report::what_holds_back(difference(meanwhile, before), "bsp"),
            "under BSP the devices wait 38 % of their time, mostly for no device that is known so far");
  now.waits = {{"w3", "rule", from_seconds(50)}};
  const report::TimeLedger late = difference(now, before);
  ASSERT_EQ(late.waits.size(), 1u);
  EXPECT_EQ(late.waits[0].time, from_seconds(15));
}

TEST(LedgerWindowTest, HasOnlyTheLatestTime) {
  LedgerWindow window;
  report::TimeLedger ledger;
  ledger.devices = {{"w0", {}, {}}};
  for (int second = 0; second <= 60; ++second) {
    ledger.until = at(second);
    ledger.devices[0].spent[second <= 30 ? 0 : 1] += from_seconds(1);
    const report::TimeLedger late = window.of_late(ledger);
    if (second == 60) {
      EXPECT_EQ(late.devices[0].of(report::TimeCause::kComputing), Duration::zero());
      EXPECT_LE(late.wall(), LedgerWindow::kStep * 4);
      EXPECT_GE(late.wall(), LedgerWindow::kStep);
    }
  }
}

TEST(MovingLanesTest, EachLaneIsWithoutAHoleAndNamesWhomItWaitsFor) {
  Time end;
  const auto run = watched("bsp", &end);
  const Json lanes = run->lanes.json(end, {0, 1, 2, 3});
  ASSERT_EQ(lanes.at("lanes").size(), 4u);
  const double from = lanes.at("from_s"), to = lanes.at("to_s");
  bool waited = false;
  for (const Json& lane : lanes.at("lanes")) {
    double until = from;
    for (const Json& span : lane.at("spans")) {
      EXPECT_NEAR(span[0].get<double>(), until, 0.02 * (to - from)) << lane.at("device");
      until = span[0].get<double>() + span[1].get<double>();
      if (span[3].get<int>() < 0 || span[2].get<int>() != static_cast<int>(report::TimeCause::kWaiting))
        continue;
      waited = true;
      EXPECT_EQ(lanes.at("names")[span[3].get<std::size_t>()], report::uneven_four().replicas.back().name);
    }
    EXPECT_NEAR(until, to, 0.02 * (to - from));
  }
  EXPECT_TRUE(waited);
  EXPECT_FALSE(lanes.at("groups").empty());
}

TEST(LivePartsTest, TheSlowOneIsNamedInTheSentenceAndFirstAmongTheDevices) {
  Time end;
  const auto run = watched("bsp", &end);
  const auto parts = run->parts(end);
  const std::string slow = report::uneven_four().replicas.back().name;
  EXPECT_THAT(parts.at("head").at("holds_back").get<std::string>(),
              testing::StartsWith(slow + " takes 3.0 times"));
  EXPECT_EQ(parts.at("devices").at("rows")[0].at("name"), slow);
  EXPECT_EQ(parts.at("head").at("samples"), 3200);
}

// Both shares are parts of the time from one release to the next.
TEST(LivePartsTest, TheWaitingOfLateIsMeasuredAsThatOfTheWholeRun) {
  Watched run(info_of("bsp", 100));
  run.on_fact({at(0), control::ReplicaJoined{ReplicaId(0), "w0", 8}});
  run.on_order(at(0), control::Release{ReplicaId(0), Clock(1), Version(0), {0, 0, 8}, {"", 0, 0}});
  control::ReplicaReady ready{ReplicaId(0), Clock(1), Version(0), from_seconds(2)};
  ready.loading = ready.pulling = from_seconds(0.5);  // the other two seconds are on the way
  run.on_fact({at(4), ready});
  run.on_order(at(5), control::Release{ReplicaId(0), Clock(2), Version(1), {0, 8, 16}, {"", 0, 0}});
  const Json head = run.parts(at(5)).at("head");
  EXPECT_NEAR(head.at("wait_share").get<double>(), 0.2, 1e-9);
  EXPECT_NEAR(head.at("wait_of_late").get<double>(), 0.2, 1e-9);
}

// Seconds and shares are not rounded to four digits first, because the last shown digit would be wrong.
TEST(LivePartsTest, SecondsAndSharesGoOutAsTheyAre) {
  Watched run(info_of("bsp", 100));
  run.on_fact({at(0), control::ReplicaJoined{ReplicaId(0), "w0", 8}});
  run.on_order(at(0), control::Release{ReplicaId(0), Clock(1), Version(0), {0, 0, 8}, {"", 0, 0}});
  run.on_evaluated({at(9), Version(3), 24, 1, 0.98749});
  const Json head = run.parts(at(12345.7)).at("head");
  EXPECT_EQ(head.at("elapsed_s"), 12345.7);
  EXPECT_EQ(head.at("accuracy"), 0.98749);
  EXPECT_EQ(head.at("best_accuracy"), 0.98749);
}

TEST(LivePartsTest, AReplicaThatCameAgainIsOneAndIsWaitedForOnce) {
  Watched run(info_of("bsp", 100));
  for (const int id : {0, 1})
    run.on_fact({at(0), control::ReplicaJoined{ReplicaId(id), id ? "w1" : "w0", 8}});
  for (const int id : {0, 1})
    run.on_order(at(0),
                 control::Release{ReplicaId(id), Clock(1), Version(0), {0, 8 * id, 8 * id + 8}, {"", 0, 0}});
  run.on_fact({at(1), control::ReplicaLeft{ReplicaId(1), "its stream ended"}});
  run.on_fact({at(1), control::ReplicaJoined{ReplicaId(2), "w1", 8}});
  run.on_order(at(1), control::Release{ReplicaId(2), Clock(1), Version(0), {0, 8, 16}, {"", 0, 0}});
  run.on_fact({at(2), control::ReplicaReady{ReplicaId(0), Clock(1), Version(0), from_seconds(2)}});
  run.on_fact({at(6), control::ReplicaReady{ReplicaId(2), Clock(1), Version(0), from_seconds(5)}});
  run.on_order(at(6),
               control::Release{ReplicaId(0), Clock(2), Version(1), {0, 16, 24}, {"all are ready", 0, 0}});
  const auto parts = run.parts(at(6));
  EXPECT_EQ(parts.at("head").at("live"), 2);
  EXPECT_EQ(parts.at("head").at("replicas"), 2);
  const Json& rows = parts.at("devices").at("rows");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("name"), "w1");
  EXPECT_EQ(rows[0].at("doing"), "waiting");
  EXPECT_EQ(rows[0].at("waited_for_s"), 4);
  EXPECT_NEAR(rows[1].at("wait_share").get<double>(), 2.0 / 3, 1e-9) << "with all of its digits";
  EXPECT_EQ(rows[2].at("name"), "w1");
  EXPECT_EQ(rows[2].at("doing"), "gone");
  EXPECT_EQ(rows[2].at("waited_for_s"), 0);
}

// Under ASP nobody is waited for; after a month most replicas are gone.
TEST(LivePartsTest, ThoseThatAreHereComeBeforeThoseThatAreGone) {
  Watched run(info_of("asp", 1'000'000));
  constexpr int kPlaces = 64, kComes = 6;
  for (int i = 0; i < kPlaces * kComes; ++i) {
    if (i >= kPlaces) run.on_fact({at(i), control::ReplicaLeft{ReplicaId(i - kPlaces), "killed"}});
    run.on_fact({at(i), control::ReplicaJoined{ReplicaId(i), "w" + std::to_string(i % kPlaces), 8}});
    run.on_order(at(i),
                 control::Release{ReplicaId(i), Clock(1), Version(0), {0, 8 * i, 8 * i + 8}, {"", 0, 0}});
  }
  control::CommitRecord commit;
  commit.version = Version(1);
  for (const int i : {kPlaces * kComes - 2, kPlaces * kComes - 1})
    commit.members.push_back({ReplicaId(i), Clock(1), Version(0), {0, 8 * i, 8 * i + 8}});
  run.on_order(at(400), commit);
  const auto parts = run.parts(at(400));
  const Json& rows = parts.at("devices").at("rows");
  ASSERT_EQ(rows.size(), kDeviceRows);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].at("doing") == "gone", i >= kPlaces) << i;
  EXPECT_EQ(parts.at("groups").at("latest")[0][3], "w62, w63");
  const auto lines = top_screen(parts, "run", 80, 24);
  EXPECT_THAT(lines, testing::Not(testing::Contains(testing::ContainsRegex("^w[0-9]+ +gone"))));
}

TEST(LivePartsTest, EveryDevicesTimeAddsUpUnderEveryPolicy) {
  for (const std::string& policy : policy::one_of_each_policy()) {
    Time end;
    const auto run = watched(policy, &end);
    const Json time = run->parts(end).at("time");
    EXPECT_EQ(time.at("off_by_s"), 0) << policy;
    for (const Json& device : time.at("devices")) {
      double sum = 0;
      for (std::size_t i = 1; i < device.size(); ++i) sum += device[i].get<double>();
      EXPECT_NEAR(sum, time.at("wall_s").get<double>(), 0.01) << policy;
    }
  }
}

TEST(LivePartsTest, StaySmallWithAThousandDevicesAndManyIterations) {
  report::ExampleJob job;
  for (int i = 0; i < 1000; ++i) job.replicas.push_back({"w" + std::to_string(i), i == 500 ? 3.0 : 1.0});
  job.batch = 1;
  job.samples = 200000;
  job.evaluate_every = 200;
  Time end;
  const auto run = watched("ssp:2", &end, job);
  std::size_t all = 0;
  for (const auto& [name, part] : run->parts(end)) {
    EXPECT_LT(report::one_line(part).size(), 100000u) << name;
    all += report::one_line(part).size();
  }
  EXPECT_LT(all, 250000u);
  EXPECT_EQ(run->parts(end).at("devices").at("rows")[0].at("name"), "w500");
  EXPECT_THAT(run->parts(end).at("lanes").at("lanes").dump(), testing::HasSubstr("\"w500\""));
}

TEST(TopScreenTest, FitsAndNamesTheSlowDevice) {
  Time end;
  const auto run = watched("bsp", &end);
  for (const auto& [width, height] : {std::pair{80, 24}, {120, 50}, {40, 8}, {20, 4}}) {
    const auto lines = top_screen(run->parts(end), "run", width, height);
    EXPECT_LE(lines.size(), static_cast<std::size_t>(height));
    for (const std::string& line : lines) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
  const auto lines = top_screen(run->parts(end), "run", 80, 24);
  EXPECT_THAT(lines[1], testing::HasSubstr("takes 3.0 times as long"));
  const auto header =
      std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("device"); });
  ASSERT_NE(header, lines.end());
  EXPECT_THAT(*header, testing::EndsWith("iterations"));
  EXPECT_THAT(*(header + 1), testing::StartsWith(report::uneven_four().replicas.back().name));
}

TEST(TopScreenTest, ARunThatHasNotBegunHasItsStateAlone) {
  const RunFollower::Parts parts = {
      {"head", {{"state", "starting"}, {"holds_back", "it has not trained yet"}, {"trouble", ""}}}};
  EXPECT_THAT(top_screen(parts, "a run", 80, 24),
              testing::ElementsAre("a run    starting", "it has not trained yet"));
}

TEST(TopScreenTest, OnlyARunThatIsDoneIsAt100Percent) {
  const auto line = [](int samples) {
    const RunFollower::Parts parts = {{"head",
                                       {{"state", "training"},
                                        {"title", "a job"},
                                        {"policy", "bsp"},
                                        {"holds_back", "nothing"},
                                        {"trouble", ""},
                                        {"samples", samples},
                                        {"total_samples", 1000}}},
                                      {"devices", {{"rows", Json::array()}, {"left_out", 0}, {"middle", 1}}}};
    return absl::StrJoin(top_screen(parts, "a run", 80, 24), "\n");
  };
  EXPECT_THAT(line(996), testing::HasSubstr(" 99 % "));
  EXPECT_THAT(line(290), testing::HasSubstr(" 29 % "));
  EXPECT_THAT(line(1000), testing::HasSubstr(" 100 % "));
}

// The advice is at the end of a line.
TEST(TopScreenTest, ShowsTroubleInFull) {
  const std::string trouble =
      "runs/digits-20260101T120000.000Z-bsp/journal.sqlite: may not be opened; check the permissions of it";
  const RunFollower::Parts parts = {
      {"head", {{"state", "failed"}, {"holds_back", "it failed"}, {"trouble", trouble}}}};
  const auto lines = top_screen(parts, "a run", 80, 24);
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(absl::StrJoin(lines.begin() + 2, lines.end(), " "), "! " + trouble);
}

}  // namespace
}  // namespace paceline::ui

#include "paceline/records/pages/report_json.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/records/stats/example_run.h"
#include "paceline/records/stats/throughput.h"

namespace paceline::report {
namespace {

RunInfo info() {
  return {.title = "job",
          .policy = "bsp",
          .world = World::kVirtual,
          .total_samples = 3200,
          .target = Target{"accuracy", 0.9}};
}

Json document(const std::string& policy) {
  RunStats stats(info());
  const Time end = run_example(uneven_four(), policy, stats);
  return report_json(stats.summary(end), stats.history(end));
}

TEST(ReportJson, TellsTheWholeRun) {
  const Json run = document("bsp");
  EXPECT_EQ(run["summary"]["samples"], 3200);
  EXPECT_EQ(run["summary"]["finished"], true);
  EXPECT_EQ(run["replicas"].size(), 4U);
  EXPECT_GE(run["evaluations"].size(), 8U);
  EXPECT_EQ(run["target"]["text"], "accuracy ≥ 90 %");
  EXPECT_FALSE(run["target"]["reached"].is_null());
  EXPECT_EQ(run["staleness"]["counts"], Json::array({100}));
}

// Three fast replicas commit together every 0.1 s; the slow one is ready with them every third time.
TEST(ReportJson, TellsHowGroupsFormed) {
  RunInfo grouped = info();
  grouped.epoch_samples = 1600;
  grouped.staleness_bound = 4;
  RunStats stats(grouped);
  const Time end = run_example(uneven_four(), gathering(3, 0.05), stats);
  const Summary summary = stats.summary(end);
  const Json run = report_json(summary, stats.history(end));
  EXPECT_EQ(run["summary"]["staleness_bound"], 4);
  EXPECT_EQ(run["summary"]["gradients_per_epoch"], 50.0);
  EXPECT_EQ(run["summary"]["commits_per_epoch"], static_cast<double>(summary.commits) / 2);
  EXPECT_EQ(run["summary"]["group_size_mean"], 100.0 / static_cast<double>(summary.commits));
  EXPECT_EQ(run["summary"]["group_size_max"], 3);
  const Json& deviation = run["summary"]["deviation"];
  EXPECT_EQ(deviation["learning_rate"], 0.05);
  EXPECT_EQ(deviation["fraction"], 0.75);
  EXPECT_DOUBLE_EQ(deviation["bound"].get<double>(), 0.05 * 0.75 * 4);
  EXPECT_DOUBLE_EQ(deviation["measured"].get<double>(),
                   0.05 * 0.75 * static_cast<double>(summary.staleness_max));
  EXPECT_TRUE(deviation["used_weights"].is_null());
  grouped.used_weights = UsedWeights{2, 0.5, 1, 3, 4};
  Summary measured = summary;
  measured.run = grouped;
  const Json found = report_json(measured, stats.history(end))["summary"]["deviation"]["used_weights"];
  EXPECT_EQ(found, Json({{"gradient", 2}, {"mean", 0.5}, {"most", 1}, {"mean_bound", 3}, {"most_bound", 4}}));
  const Json& groups = run["groups"];
  EXPECT_EQ(groups["formed"][0].dump().substr(0, 17), "[0.1,1,3,[0,1,2],");
  EXPECT_EQ(run["reasons"][groups["formed"][0][4].get<std::size_t>()], "full: 3 gradients");
  EXPECT_EQ(groups["sizes"].size(), 3U);
  EXPECT_EQ(groups["sizes"][2]["from"], 3);
  EXPECT_EQ(groups["sizes"][2]["commits"].size(), groups["causes"].size());
  EXPECT_EQ(groups["left_out"], 0);
}

TEST(ReportJson, TellsThePlansAndWhatBatchesTook) {
  EXPECT_TRUE(document("bsp")["plan"].is_null());
  RunInfo planned = info();
  planned.devices = {"w0", "w1"};
  planned.layers = 6;
  RunStats stats(planned);
  const auto at = [](double seconds) { return Time(from_seconds(seconds)); };
  stats.on_order(at(0), control::PlanAdopted{at(0), {{{{0, 1}, {3}, 16}}, 4}, 95, "the first"});
  stats.on_order(
      at(0.1),
      control::BatchDone{at(0.1), 95, 100, true, {{0, 16, from_seconds(0.06)}, {1, 16, from_seconds(0.03)}}});
  stats.on_order(at(0.1), control::PlanAdopted{at(0.1), {{{{0}, {}, 16}}, 4}, 120, "w1 has left"});
  stats.on_order(at(0.4),
                 control::BatchDone{
                     at(0.4), 120, 300, false, {{0, 16, from_seconds(0.15)}}, control::Spending{2, 4, 0.5}});
  stats.on_fact(
      {at(0.3), control::LinkMeasured{HostPlace(0), HostPlace(1), 1'000'000, from_seconds(0.1), false}});
  const Json plan = report_json(stats.summary(at(0.4)), stats.history(at(0.4)))["plan"];
  EXPECT_EQ(plan["devices"], Json::array({"w0", "w1"}));
  EXPECT_EQ(plan["layers"], 6);
  EXPECT_EQ(plan["re_plans"], 1);
  EXPECT_EQ(plan["measured_ms"], 100.0);
  EXPECT_EQ(plan["error"], 0.05);
  EXPECT_EQ(plan["plans"][0]["replicas"].dump(), R"([{"devices":[0,1],"cuts":[3],"samples":16}])");
  EXPECT_EQ(plan["plans"][1]["why"], "w1 has left");
  EXPECT_TRUE(plan["plans"][1]["measured_ms"].is_null()) << "its one batch has the change in it";
  EXPECT_EQ(plan["batches"].dump(),
            "[[0.1,1,95.0,100.0,100.0,[0.6,0.3],null],[0.4,0,null,null,300.0,[0.5],[2.0,4.0,0.5]]]");
  EXPECT_EQ(plan["spending"].dump(), "[2.0,4.0,0.5]");
  EXPECT_EQ(plan["queue_max"], 0.5);
  EXPECT_EQ(plan["links"].dump(), R"([{"from":0,"to":1,"points":[[0.3,80.0]]}])");
  const auto events = stats.history(at(0.4)).events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, "re-planned: w1 has left");
}

TEST(ReportJson, IntervalsPointAtTheirReasons) {
  const Json run = document("bsp");
  const Json& lane = run["replicas"][0]["lane"]["intervals"];
  ASSERT_EQ(lane.size(), 50U);
  EXPECT_EQ(lane[0], Json::parse(R"([0.0, 0.1, "c", 1, -1])"));
  EXPECT_EQ(lane[1][2], "w");
  EXPECT_EQ(lane[1][1], 0.3);
  EXPECT_TRUE(run["replicas"][0]["lane"]["activity"].empty());
  EXPECT_EQ(run["reasons"][lane[1][4].get<std::size_t>()], "the round is committed");
  EXPECT_LE(run["reasons"].size(), 3U) << "each text once";
}

TEST(ReportJson, EachKindOfIntervalHasItsLetter) {
  RunStats stats(info());
  const auto at = [](double seconds) { return Time(from_seconds(seconds)); };
  const ReplicaId w0(0);
  stats.on_fact({at(0), control::ReplicaJoined{w0, "w0", 32}});
  stats.on_order(at(0), control::Release{w0, Clock(1), Version(0), {}, {"joined"}});
  stats.on_fact({at(1), control::ReplicaReady{w0, Clock(1), Version(0), from_seconds(1), 1}});
  stats.on_order(at(2), control::Park{w0});
  const Json run = report_json(stats.summary(at(3)), stats.history(at(3)));
  const Json& lane = run["replicas"][0]["lane"]["intervals"];
  ASSERT_EQ(lane.size(), 3U);
  EXPECT_EQ(lane[0][2], "c") << "computing";
  EXPECT_EQ(lane[1][2], "w") << "waiting";
  EXPECT_EQ(lane[2][2], "p") << "no samples are left for it";
}

// The sums cover the intervals that are left out.
TEST(ReportJson, ALongLaneHasItsActivity) {
  ExampleJob job = uneven_four();
  job.samples = 32 * 4 * 4000;
  RunStats stats(info());
  const Time end = run_example(job, "bsp", stats);
  const Json lane = report_json(stats.summary(end), stats.history(end))["replicas"][0]["lane"];
  EXPECT_EQ(lane["intervals"].size(), ReplicaStats::kFirstIntervals + ReplicaStats::kLatestIntervals);
  EXPECT_EQ(lane["left_out"], 3000);
  ASSERT_GT(lane["activity"].size(), 100U);
  const Json last = lane["activity"].back();
  EXPECT_NEAR(last[0].get<double>(), 1200, 1e-6);
  EXPECT_NEAR(last[1].get<double>(), 400, 1e-6);
  EXPECT_NEAR(last[2].get<double>(), 800, 1e-6);
}

TEST(ReportJson, WritesNullForNaN) {
  EXPECT_TRUE(json_number(std::numeric_limits<double>::quiet_NaN()).is_null());
  EXPECT_TRUE(json_number(std::nullopt).is_null());
  EXPECT_EQ(json_number(0.5), 0.5);
}

TEST(ReportJson, AnEmptyRunIsADocumentToo) {
  const RunStats stats(
      {.title = "job", .policy = "asp", .world = World::kLive, .total_samples = 10, .target = {}});
  const Json run = report_json(stats.summary({}), stats.history({}));
  EXPECT_TRUE(run["target"].is_null());
  EXPECT_TRUE(run["summary"]["wait_share"].is_null());
  EXPECT_TRUE(run["throughput"].empty());
  EXPECT_TRUE(run["evaluations"].empty());
  EXPECT_TRUE(run["training"].empty());
  EXPECT_TRUE(run["summary"]["deviation"].is_null());
  EXPECT_TRUE(run["summary"]["commits_per_epoch"].is_null());
  EXPECT_TRUE(run["groups"]["sizes"].empty());
}

TEST(ReportJson, SaysHowManyReplicasAreLeftOut) {
  Summary summary;
  summary.replicas.resize(kReplicasInReport + 7);
  const Json run = report_json(summary, {});
  EXPECT_EQ(run["replicas"].size(), kReplicasInReport);
  EXPECT_EQ(run["replicas_left_out"], 7);
  EXPECT_TRUE(run["replicas"][0]["lane"].is_null());
}

// The replicas that came last may have the lanes.
TEST(ReportJson, EveryReplicaWithALaneHasARow) {
  Summary summary;
  summary.replicas.resize(kReplicasInReport + 7);
  for (std::size_t i = 0; i < summary.replicas.size(); ++i)
    summary.replicas[i].replica = ReplicaId(static_cast<std::int32_t>(i));
  History history;
  history.replicas.emplace_back().replica = summary.replicas.back().replica;
  const Json run = report_json(summary, history);
  EXPECT_EQ(run["replicas"].size(), kReplicasInReport);
  EXPECT_EQ(run["replicas_left_out"], 7);
  EXPECT_FALSE(run["replicas"].back()["lane"].is_null());
}

TEST(ReportJson, AReplicaThatCameAgainIsCountedOnce) {
  Summary summary;
  for (const char* const name : {"w0", "w1", "w1"}) summary.replicas.emplace_back().name = name;
  const Json run = report_json(summary, {});
  EXPECT_EQ(run["summary"]["replicas"], 2);
  EXPECT_EQ(run["replicas"].size(), 3U);
}

History commits_at(std::vector<double> seconds) {
  History history;
  std::int64_t samples = 0;
  for (const double s : seconds) history.training.push_back({Time(from_seconds(s)), samples += 100, 0});
  return history;
}

TEST(Throughput, IsTheMeanOfEachSpan) {
  // 100 samples a second for four seconds, then 50.
  const auto rates = throughput(commits_at({1, 2, 3, 4, 6, 8, 10}), 50);
  ASSERT_EQ(rates.size(), 2U);
  EXPECT_DOUBLE_EQ(rates[0].time_s, 2.5);
  EXPECT_DOUBLE_EQ(rates[0].samples_per_s, (400 + 50) / 5.0);
  EXPECT_DOUBLE_EQ(rates[1].samples_per_s, 250 / 5.0);
}

TEST(Throughput, StartsWithNothingInAResumedRun) {
  History history = commits_at({1, 2, 3, 4});
  history.samples_at_start = 0;
  for (TrainingPoint& point : history.training) point.samples += 1'000'000;
  history.samples_at_start = 1'000'000;
  EXPECT_DOUBLE_EQ(throughput(history, 50)[0].samples_per_s, 100);
}

TEST(Throughput, NothingBeforeTheFirstCommit) { EXPECT_TRUE(throughput({}, 50).empty()); }

TEST(Throughput, HasAtMostSoManySpans) {
  std::vector<double> seconds(1000);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = static_cast<double>(i + 1);
  EXPECT_EQ(throughput(commits_at(seconds), 50).size(), 50U);
}

}  // namespace
}  // namespace paceline::report

#include "paceline/records/pages/page_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/records/pages/html.h"
#include "paceline/records/pages/report_json.h"
#include "paceline/records/stats/example_run.h"

namespace paceline::report {
namespace {

Json make_long_run() {
  ExampleJob job;
  for (int i = 0; i < 8; ++i) {
    std::string name = "w";
    job.replicas.push_back({name + std::to_string(i), i < 4 ? 1.0 : 1.3});
  }
  job.batch = 1;
  job.samples = 20'000;
  job.evaluate_every = 2'000;
  job.jitter = 0.1;
  RunStats stats(
      {.title = "long", .policy = "bsp", .world = World::kVirtual, .total_samples = 20'000, .target = {}});
  const Time end = run_example(job, "bsp", stats);
  return report_json(stats.summary(end), stats.history(end));
}

// Eight replicas with 20,000 iterations together. All tests have the same one, because it takes long to make.
const Json& long_run() {
  static const Json run = make_long_run();
  return run;
}

std::size_t intervals_of(const std::vector<Json>& runs) {
  std::size_t count = 0;
  for (const Json& run : runs) {
    for (const Json& replica : run["replicas"]) count += replica["lane"]["intervals"].size();
  }
  return count;
}

TEST(PageSize, KeepsARunOfEightReplicasWhole) {
  const Json& run = long_run();
  const Json sized = sized_for_page({run}).front();
  EXPECT_EQ(sized["replicas"][0], run["replicas"][0]);
  EXPECT_EQ(sized["groups"], run["groups"]);
  EXPECT_EQ(sized["training"], run["training"]);
}

TEST(PageSize, TenRunsShareAPage) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of sizes alone";
  const Json& run = long_run();
  const std::vector<Json> runs(10, run);
  ASSERT_GT(intervals_of(runs), 4 * kIntervalsOfPage);
  EXPECT_LE(intervals_of(sized_for_page(runs)), kIntervalsOfPage);
  EXPECT_LT(render_comparison(runs).size(), 2'000'000U);
}

// The same sums as lanes.js makes for a lane whose middle is left out.
TEST(PageSize, CountsLeftOutIntervalsAndKeepsTheShares) {
  const Json& run = long_run();
  const Json sized = sized_for_page(std::vector<Json>(10, run)).front();
  const Json& before = run["replicas"][5]["lane"];
  const Json& after = sized["replicas"][5]["lane"];
  const std::size_t kept = after["intervals"].size(), first = after["left_out_after"].get<std::size_t>();
  ASSERT_EQ(before["left_out"], 0);
  EXPECT_EQ(after["left_out"].get<std::size_t>() + kept, before["intervals"].size());
  EXPECT_EQ(after["intervals"][first - 1], before["intervals"][first - 1]);
  EXPECT_EQ(after["intervals"].back(), before["intervals"].back());
  const Json& points = after["activity"];
  EXPECT_LE(points.front()[0].get<double>(), after["intervals"][first - 1][1].get<double>());
  EXPECT_GE(points.back()[0].get<double>(), after["intervals"][first][0].get<double>());
  double computing = 0;
  for (const Json& interval : before["intervals"]) {
    if (interval[2] == "c") computing += interval[1].get<double>() - interval[0].get<double>();
  }
  EXPECT_NEAR(points.back()[1].get<double>(), computing, 0.01);
}

TEST(PageSize, KeepsSomeOfManyReplicasAndEvents) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of sizes alone";
  Json run = long_run();
  Json without_lane = run["replicas"][0];
  without_lane["lane"] = without_lane["gap"] = nullptr;
  while (run["replicas"].size() < 1000) run["replicas"].push_back(without_lane);
  run["events"] = Json::array();
  run["replicas"].back()["lane"] = run["replicas"][0]["lane"];
  run["replicas"].back()["gap"] = Json::array();
  for (int i = 0; i < 1000; ++i) run["events"].push_back({{"time_s", i}, {"replica", ""}, {"text", "x"}});
  const Json alone = sized_for_page({run}).front();
  EXPECT_EQ(alone["replicas"].size(), 1000U);
  EXPECT_EQ(alone["events"].size(), 1000U);
  const Json sized = sized_for_page(std::vector<Json>(10, run)).front();
  EXPECT_EQ(sized["replicas"].size(), 201U) << "one that has a lane is kept";
  EXPECT_FALSE(sized["replicas"].back()["lane"].is_null());
  EXPECT_EQ(sized["replicas_left_out"], 799);
  ASSERT_EQ(sized["events"].size(), 200U);
  EXPECT_EQ(sized["events"][99]["time_s"], 99);
  EXPECT_EQ(sized["events"][100]["time_s"], 900);
  EXPECT_EQ(sized["events_left_out"], 800);
}

TEST(PageSize, KeepsTheHighestGaps) {
  Json run = long_run();
  Json& gaps = run["replicas"][0]["gap"];
  gaps = Json::array();
  for (int i = 0; i < 1000; ++i) gaps.push_back(Json::array({i, i == 517 ? 9 : 1}));
  const Json sized = sized_for_page(std::vector<Json>(10, run)).front();
  EXPECT_LE(sized["replicas"][0]["gap"].size(), kGapsOfPage / 80);
  EXPECT_THAT(sized["replicas"][0]["gap"].get<std::vector<Json>>(),
              ::testing::Contains(Json::array({517, 9})));
}

}  // namespace
}  // namespace paceline::report

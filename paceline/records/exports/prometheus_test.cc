#include "paceline/records/exports/prometheus.h"

#include <cstdio>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/stats/example_run.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/stats/time_stats.h"

namespace paceline::exports {
namespace {

using ::testing::HasSubstr;

std::string page_of(const report::ExampleJob& job, const std::string& policy,
                    const std::string& title = "job") {
  report::RunStats stats({.title = title, .policy = policy, .total_samples = job.samples, .target = {}});
  report::TimeStats time({});
  const Time end = report::run_example(job, policy, stats);
  report::run_example(job, policy, time);
  // Numbers that only a run which still trains has.
  const LiveNumbers more{.learning_rate = 0.5,
                         .updates = {{.server = 1, .count = 4, .seconds = 0.25}},
                         .left = {{"its \"stream\" ended", 2}},
                         .speeds = {{"w0", 0.25}},
                         .links = {{"w0", "server 0", "gradients", 1234}},
                         .memory = {{"w0", 1234}}};
  return prometheus_text(stats.summary(end), stats.history(end), time.settled(), 1e9 + 7.5, more);
}

TEST(Prometheus, SaysWhatARunIs) {
  const std::string page = page_of(report::uneven_four(), "bsp", "a \"job\" \\ with\nlines");
  EXPECT_THAT(
      page,
      HasSubstr("# TYPE paceline_committed_samples_total counter\npaceline_committed_samples_total 3200\n"));
  EXPECT_THAT(
      page,
      HasSubstr(
          "paceline_run_info{job=\"a \\\"job\\\" \\\\ with?lines\",policy=\"bsp\",world=\"live\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("paceline_device_seconds_total{device=\"w0\",cause=\"waiting\"} 5\n"));
  EXPECT_THAT(page, HasSubstr("paceline_device_seconds_total{device=\"w3\",cause=\"on_the_way\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("paceline_waited_for_seconds_total{device=\"w3\"} 15\n"));
  EXPECT_THAT(page, HasSubstr("paceline_last_commit_timestamp_seconds 1000000007.5\n"));
  EXPECT_THAT(page, HasSubstr("paceline_staleness_commits_bucket{le=\"0\"} 100\n"
                              "paceline_staleness_commits_bucket{le=\"+Inf\"} 100\n"));
  EXPECT_THAT(page, HasSubstr("paceline_group_gradients_bucket{le=\"3\"} 0\n"
                              "paceline_group_gradients_bucket{le=\"4\"} 25\n"));
  EXPECT_THAT(page, HasSubstr("paceline_group_gradients_sum 100\npaceline_group_gradients_count 25\n"));
}

TEST(Prometheus, ARunThatHasNotBegunIsAPage) {
  const report::RunStats stats({.title = "", .policy = "bsp", .target = {}});
  const std::string page =
      prometheus_text(stats.summary({}), stats.history({}), report::TimeStats({}).settled(), {});
  EXPECT_THAT(page, HasSubstr("paceline_commits_total 0\n"));
  EXPECT_THAT(page, testing::Not(HasSubstr("loss")));
}

TEST(Prometheus, SaysWhatIsKnownOfARunThatTrains) {
  const report::RunStats stats({.title = "", .policy = "bsp", .target = {}});
  const LiveNumbers more{.learning_rate = 0.5,
                         .updates = {{.server = 1, .count = 4, .seconds = 0.25}},
                         .left = {{"its \"stream\" ended", 2}},
                         .speeds = {{"w0", 0.25}}};
  const std::string page =
      prometheus_text(stats.summary({}), stats.history({}), report::TimeStats({}).settled(), {}, more);
  EXPECT_THAT(page, HasSubstr("paceline_learning_rate 0.5\n"));
  EXPECT_THAT(
      page,
      HasSubstr(
          "paceline_update_seconds_sum{server=\"1\"} 0.25\npaceline_update_seconds_count{server=\"1\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("paceline_left_replicas_total{reason=\"its \\\"stream\\\" ended\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("paceline_device_speed_ratio{device=\"w0\"} 0.25\n"));
  EXPECT_THAT(page, HasSubstr("paceline_attempts_total 1\n"));
}

TEST(Prometheus, CountersDoNotFallWhenARunGoesBack) {
  Highest highest;
  const auto page = [&](std::int64_t commits, double loss, double update_s) {
    report::Summary summary;
    summary.commits = commits;
    summary.training_loss = loss;
    const LiveNumbers more{.updates = {{.server = 0, .count = commits, .seconds = update_s}}};
    return prometheus_text(summary, {}, report::TimeStats({}).settled(), {}, more, &highest);
  };
  page(100, 0.5, 7);
  const std::string after = page(60, 1.5, 9);
  EXPECT_THAT(after, HasSubstr("paceline_commits_total 100\n"));
  EXPECT_THAT(after, HasSubstr("paceline_update_seconds_count{server=\"0\"} 100\n"));
  EXPECT_THAT(after, HasSubstr("paceline_update_seconds_sum{server=\"0\"} 9\n"));
  EXPECT_THAT(after, HasSubstr("paceline_training_loss 1.5\n")) << "it is no counter";
  EXPECT_THAT(page(101, 1.5, 9), HasSubstr("paceline_commits_total 101\n"));
}

TEST(Prometheus, SaysWhatProcessesHoldAndSend) {
  report::Summary summary;
  summary.run.restarts = {{"server # died", 2}};
  LiveNumbers more;
  for (int i = 0; i < 1002; ++i) {
    more.links.push_back({fmt::format("server{}", i), "server0", "weights", 5});
    more.memory.emplace_back(fmt::format("w{}", i), 7);
  }
  const std::string page = prometheus_text(summary, {}, report::TimeStats({}).settled(), {}, more);
  EXPECT_THAT(page, HasSubstr("paceline_restarts_total{reason=\"server # died\"} 2\n"));
  EXPECT_THAT(
      page,
      HasSubstr("paceline_link_sent_bytes_total{from=\"server999\",to=\"server0\",kind=\"weights\"} 5\n"));
  EXPECT_THAT(
      page, HasSubstr("paceline_link_sent_bytes_total{from=\"others\",to=\"others\",kind=\"weights\"} 10\n"));
  EXPECT_THAT(page, HasSubstr("paceline_process_resident_memory_bytes{process=\"w999\"} 7\n"));
  EXPECT_THAT(page, HasSubstr("paceline_process_resident_memory_bytes{process=\"others\"} 14\n"));
  EXPECT_THAT(page, testing::Not(HasSubstr("w1000")));
}

TEST(Prometheus, NamesAThousandDevices) {
  report::ExampleJob job;
  job.samples = 32 * 2400;
  for (int i = 0; i < 1200; ++i) job.replicas.push_back({.name = fmt::format("w{}", i)});
  const std::string page = page_of(job, "bsp");
  EXPECT_THAT(page, HasSubstr("device=\"w999\""));
  EXPECT_THAT(page, testing::Not(HasSubstr("device=\"w1000\"")));
  EXPECT_THAT(page, HasSubstr("paceline_device_seconds_total{device=\"others\",cause=\"computing\"} 400\n"));
  EXPECT_LT(std::count(page.begin(), page.end(), '\n'), 13'000);
}

TEST(Prometheus, KeepsItsRulesAsPromtoolKnowsThem) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not here; ./dev test brings it";
  EXPECT_EQ(std::system("promtool test rules " PACELINE_MONITORING "/alerts_test.yml"), 0);
  EXPECT_EQ(std::system("promtool check config " PACELINE_MONITORING "/prometheus.yml"), 0);
  for (const char* policy : {"bsp", "asp", "cgp"}) {
    FILE* tool = popen("promtool check metrics 2>&1", "w");
    ASSERT_NE(tool, nullptr);
    const std::string page = page_of(report::uneven_four(), policy, "a \"job\"");
    EXPECT_EQ(std::fwrite(page.data(), 1, page.size(), tool), page.size());
    EXPECT_EQ(pclose(tool), 0) << page;
  }
}

}  // namespace
}  // namespace paceline::exports

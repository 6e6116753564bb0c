#include "paceline/simulation/sim/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::sim {
namespace {

using ::testing::HasSubstr;

Scenario good(const std::string& text) {
  const auto scenario = parse_scenario(text, "s.toml");
  EXPECT_TRUE(scenario.ok()) << scenario.status();
  return scenario.value_or(Scenario{});
}

std::string error(const std::string& text) {
  return std::string(parse_scenario(text, "s.toml").status().message());
}

TEST(Scenario, AnEmptyFileIsOneReplica) {
  const Scenario scenario = good("");
  EXPECT_EQ(scenario.iterations, 1000);
  EXPECT_EQ(scenario.samples, 0);
  ASSERT_EQ(scenario.cluster.places.size(), 1u);
  EXPECT_EQ(scenario.cluster.places[0].name, "w0");
  EXPECT_EQ(scenario.cluster.places[0].compute_ms, 1000);
  EXPECT_EQ(scenario.cluster.places[0].batch, 128);
  EXPECT_EQ(scenario.cluster.bytes, 0);
  EXPECT_EQ(scenario.cluster.servers.count, 1);
}

TEST(Scenario, EveryKeyIsRead) {
  const Scenario scenario = good(R"(
seed = 7
samples = 500
detection_ms = 250
faults_end_s = 60
[model]
bytes = 1000
[link]
gbps = 2.5
latency_us = 10
[server]
count = 3
gbps = 20
colocated = true
update_ms = 2.5
gradient_ms = 0.5
[[device]]
count = 2
compute_ms = 5
jitter = 0.5
slow_chance = 0.25
slow_factor = [2, 3]
batch = 9
mtbf_s = 100
mttr_s = 5
[device.link]
gbps = 1
[[device]]
[[change]]
at_s = 9
device = 2
what = "crash"
[[change]]
at_s = 4
device = 1
what = "join"
[[change]]
at_s = 1
until_s = 2
device = 0
factor = 3
)");
  const ClusterModel& cluster = scenario.cluster;
  EXPECT_EQ(cluster.seed, 7u);
  EXPECT_EQ(scenario.samples, 500);
  EXPECT_EQ(scenario.iterations, 0);
  EXPECT_EQ(cluster.detection, from_seconds(0.25));
  EXPECT_EQ(cluster.faults_end, Time{} + from_seconds(60));
  EXPECT_EQ(cluster.bytes, 1000);
  EXPECT_EQ(cluster.servers.count, 3);
  EXPECT_EQ(cluster.servers.gbps, 20);
  EXPECT_TRUE(cluster.servers.colocated);
  EXPECT_EQ(cluster.servers.update.update_ms, 2.5);
  EXPECT_EQ(cluster.servers.update.gradient_ms, 0.5);
  ASSERT_EQ(cluster.places.size(), 3u);
  const PlaceModel& second = cluster.places[1];
  EXPECT_EQ(second.name, "w1");
  EXPECT_EQ(second.compute_ms, 5);
  EXPECT_EQ(second.unevenness.jitter, 0.5);
  EXPECT_EQ(second.unevenness.slow_chance, 0.25);
  EXPECT_EQ(second.unevenness.slow_least, 2);
  EXPECT_EQ(second.unevenness.slow_most, 3);
  EXPECT_EQ(second.batch, 9);
  EXPECT_EQ(second.mtbf_s, 100);
  EXPECT_EQ(second.mttr_s, 5);
  EXPECT_EQ(second.link.gbps, 1);
  EXPECT_EQ(second.link.latency_us, 10);  // from [link]
  EXPECT_EQ(cluster.places[2].link.gbps, 2.5);
  ASSERT_EQ(cluster.changes.size(), 2u);
  EXPECT_EQ(cluster.changes[0].what, Happening::kJoin);  // sorted by time
  EXPECT_EQ(cluster.changes[1].what, Happening::kCrash);
  EXPECT_EQ(cluster.changes[1].place, 2);
  ASSERT_EQ(cluster.slowdowns.size(), 1u);
  EXPECT_EQ(cluster.slowdowns[0].factor, 3);
}

struct Bad {
  std::string text;
  std::string says;
};

class BadScenario : public ::testing::TestWithParam<Bad> {};

TEST_P(BadScenario, GetsOneLineThatNamesFileAndFix) {
  const std::string line = error(GetParam().text);
  EXPECT_THAT(line, ::testing::StartsWith("s.toml"));
  EXPECT_THAT(line, HasSubstr(GetParam().says));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadScenario,
    ::testing::Values(
        Bad{"seed = ", "s.toml:1"}, Bad{"sed = 1", "s.toml:1: sed: unknown key; did you mean 'seed'?"},
        Bad{"[[device]]\ncompute = 1", "s.toml:2: device.compute: unknown key"},
        Bad{"[[device]]\ncompute_ms = 0", "device.compute_ms: write a number from"},
        Bad{"[[device]]\ncount = 2_000_000", "device.count"},
        Bad{"[[device]]\ncount = 600_000\n[[device]]\ncount = 600_000", "at most 1000000 devices"},
        Bad{"[[device]]\nslow_factor = [5, 2]", "device.slow_factor: write the least and the most"},
        Bad{"[[device]]\njitter = nan", "device.jitter"},
        Bad{"[[device]]\n[device.link]\nmbps = 1", "device.link.mbps: unknown key"},
        Bad{"[replica]\ncount = 1", "replica: is called device now; write [[device]]"},
        Bad{"iterations = 5\nsamples = 5", "give either iterations or samples"},
        Bad{"iterations = -5", "iterations: write a whole number"},
        Bad{"[[change]]\ndevice = 1", "change.device: write a whole number from 0 to 0"},
        Bad{"[[change]]\nat_s = 5\nuntil_s = 5", "change.until_s: write a time after at_s"},
        Bad{"[[change]]\nwhat = \"explode\"", "'explode' is unknown; write one of: slow, join, leave, crash"},
        Bad{"[[change]]\nwhat = \"join\"\nfactor = 2", "change.factor: only a change with what = \"slow\""},
        Bad{"[server]\ncount = 0", "server.count"}, Bad{"[model]\nbytes = 1.5", "model.bytes"}));

}  // namespace
}  // namespace paceline::sim

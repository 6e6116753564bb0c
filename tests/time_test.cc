// The ledger of time adds up in every world: a simulation in hard weather, real gradients in virtual time,
// real processes. The exports of a run hold together.
#include <chrono>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/decisions/policy/testing/every_policy.h"
#include "paceline/records/stats/time_stats.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/testing/faulty.h"
#include "paceline/simulation/sim/virtual_cluster.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::vector<std::string> kPolicies = policy::testing::with_every_policy(
    {"ssp:3", "dssp:1-4", "elastic-bsp:5", "cgp:S=4", "backup:1", "groups:2+2:ssp:1"});

// ---- Simulation ----

TEST(TimeSimulated, AddsUpInHardWeather) {
  const std::string text =
      "iterations = 300\n[[device]]\ncount = 3\n[[device]]\ncompute_ms = 300\n[link]\ngbps = 1\nlatency_us "
      "= 2000\n";
  for (const std::string& name : kPolicies) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", name, seed));
      const sim::Scenario scenario =
          sim::testing::faulty(sim::parse_scenario(text, "s.toml").value(), seed, 300);
      report::TimeStats time({});
      sim::VirtualCluster cluster(scenario.cluster, sim::controller_config(scenario),
                                  policy::make_policy(policy::parse_policy(name).value()),
                                  {.listeners = {&time}});
      if (!cluster.run_until_over().ok()) continue;  // every replica was lost
      const report::TimeLedger ledger = time.ledger(cluster.now());
      for (const report::DeviceTime& device : ledger.devices) {
        EXPECT_EQ(device.total(), ledger.wall()) << device.device;
        Duration waits{0};
        for (const report::Wait& wait : device.waits) waits += wait.time;
        EXPECT_EQ(waits, device.of(report::TimeCause::kWaiting) + device.of(report::TimeCause::kServers));
        for (const Duration spent : device.spent) EXPECT_GE(spent, Duration::zero());
      }
    }
  }
}

// ---- Runs ----

json time_of(const fs::path& run_folder) {
  const Ended ended = run({"report", run_folder.string(), "--time", "--json"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return json::parse(ended.output);
}

double sum_of(const json& device) {
  double sum = 0;
  for (const auto& [key, value] : device.items()) {
    if (key.ends_with("_s")) sum += value.get<double>();
  }
  return sum;
}

// `off_clock_s`: what the job's clock did not see.
void expect_adds_up(const json& time, const fs::path& run_folder, std::size_t devices,
                    double off_clock_s = 0) {
  const RecordedRun recorded = RecordedRun::read(run_folder);
  const double clock = to_seconds(recorded.facts.back().at - recorded.facts.front().at);
  const double wall = time.at("wall_s").get<double>();
  EXPECT_NEAR(wall - off_clock_s, clock, 0.01 * clock);
  EXPECT_EQ(time.at("devices").size(), devices);
  for (const json& device : time.at("devices")) {
    EXPECT_NEAR(sum_of(device), wall, 0.01 * wall) << device;
    EXPECT_GE(device.at("computing_s").get<double>(), 0.0);
  }
}

// Slices that do not overlap and fill each device's track, and arrows with both ends.
void expect_good_trace(const fs::path& run_folder, double clock_s, const fs::path& file) {
  const Ended ended = run({"export", run_folder.string(), "--trace", file.string()});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const json trace = json::parse(read_text(file));
  std::map<std::pair<int, int>, double> until, filled;
  std::map<std::int64_t, int> arrows;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "s" || phase == "f") ++arrows[event.at("id")];
    if (phase != "X") continue;
    const std::pair<int, int> track{event.at("pid"), event.at("tid")};
    EXPECT_GE(event.at("ts").get<double>(), until[track] - 0.001);
    until[track] = event.at("ts").get<double>() + event.at("dur").get<double>();
    filled[track] += event.at("dur").get<double>();
  }
  for (const auto& [id, ends] : arrows) EXPECT_EQ(ends, 2) << id;
  for (const auto& [track, us] : filled) {
    if (track.first != 1) continue;
    EXPECT_NEAR(us, clock_s * 1e6, 1 + clock_s);
  }
}

fs::path trained(const TempFolder& folder, const std::string& keys, const std::string& sections,
                 const std::vector<std::string>& more) {
  std::vector<std::string> words{"train", write_job(folder, "job", keys, sections).string()};
  words.insert(words.end(), more.begin(), more.end());
  const Ended ended = run(words);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return only_run(folder / "job/runs");
}

class TimeInVirtualTime : public ::testing::TestWithParam<std::string> {};

TEST_P(TimeInVirtualTime, AddsUp) {
  const TempFolder folder;
  const fs::path run_folder = trained(
      folder, "epochs = 0.5\n",
      std::string("[evaluate]\nevery_epochs = 0.25\n[link]\ngbps = 0.1\n[[device]]\ncount = 3\npace_ms = 20\n"
                  "[[device]]\npace_ms = 70\n[sync]\npolicy = \"") +
          GetParam() + "\"\n",
      {"--virtual"});
  const json time = time_of(run_folder);
  expect_adds_up(time, run_folder, 4);
  expect_good_trace(run_folder, time.at("wall_s"), folder / "trace.json");
}

INSTANTIATE_TEST_SUITE_P(Policies, TimeInVirtualTime, ::testing::ValuesIn(kPolicies));

TEST(TimeOfStages, StagesOfAPipelineWaitForEachOther) {
  const TempFolder folder;
  const fs::path run_folder = trained(
      folder, "epochs = 0.25\nparallel = \"joint\"\nmicro_batch = 2\n",
      "[[device]]\ncount = 2\npace_ms = 20\nbatch = 8\n[[device]]\npace_ms = 60\nbatch = 4\n", {"--virtual"});
  expect_adds_up(time_of(run_folder), run_folder, 3);
}

TEST(TimeLive, AddsUp) {
  const TempFolder folder;
  const auto began = std::chrono::steady_clock::now();
  const fs::path run_folder = trained(folder, "epochs = 0.5\n",
                                      "[[device]]\ncount = 2\npace_ms = 20\n[[device]]\npace_ms = 80\n", {});
  const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const json time = time_of(run_folder);
  const double starting_s = time.at("devices").at(0).at("starting_s");
  EXPECT_GT(starting_s, 0.01) << "processes take a while to start";
  EXPECT_LT(starting_s, took_s);
  expect_adds_up(time, run_folder, 3, starting_s);
  expect_good_trace(run_folder, time.at("wall_s").get<double>() - starting_s, folder / "trace.json");
}

TEST(Time, NamesTheSlowOne) {
  const TempFolder folder;
  const json time =
      time_of(trained(folder, "epochs = 0.5\n",
                      "[[device]]\ncount = 2\npace_ms = 20\n[[device]]\npace_ms = 80\n", {"--virtual"}));
  EXPECT_THAT(time.at("holds_back").get<std::string>(),
              ::testing::MatchesRegex("w2 takes .* times as long .* BSP .*"));
  for (const json& device : time.at("devices")) {
    if (device.at("device") == "w2") continue;
    EXPECT_EQ(device.at("waits").at(0).at("on"), "w2");
    EXPECT_EQ(device.at("waits").at(0).at("rule"), "all … live replicas are ready");
  }
}

TEST(Export, WritesTablesAndAnEventFile) {
  const TempFolder folder;
  const fs::path run_folder =
      trained(folder, "epochs = 0.25\n", "[[device]]\ncount = 2\npace_ms = 20\n", {"--virtual"});
  const Ended ended = run({"export", run_folder.string(), "--csv", (folder / "tables").string(),
                           "--tensorboard", (folder / "board").string()});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(read_text(folder / "tables/replicas.csv"), ::testing::StartsWith("replica,doing,"));
  EXPECT_THAT(read_text(folder / "tables/speeds.csv"),
              ::testing::ContainsRegex("\r\nw1,[34][0-9][0-9][^,]*,4[0-9][0-9][^,]*,[01]"))
      << "400 samples a second; its last batch may be smaller";
  const std::string lines = read_text(folder / "tables/time.jsonl");
  EXPECT_EQ(json::parse(lines.substr(0, lines.find('\n'))).at("device"), "w0");
  const fs::path events = fs::directory_iterator(folder / "board" / run_folder.filename().string())->path();
  EXPECT_NE(read_text(events).find("brain.Event:2"), std::string::npos);
}

TEST(Export, SaysWhatItWantsToKnow) {
  const TempFolder folder;
  const Ended nothing = run({"export", folder.path().string()});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.errors, ::testing::HasSubstr("--trace FILE"));
  const Ended no_run = run({"export", folder.path().string(), "--trace", (folder / "t.json").string()});
  EXPECT_EQ(no_run.status, 2);
  EXPECT_THAT(no_run.errors, ::testing::HasSubstr("not a run folder"));
  EXPECT_FALSE(fs::exists(folder / "t.json"));
}

}  // namespace
}  // namespace paceline::tests

// The ledger of real processes against a stopwatch, under one policy of each kind and with a worker killed:
// each device's causes add up to the time from the opening of the run's books to its end, within 1 % and
// what the stopwatch may be late.
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::steady_clock;

bool any_file(const fs::path& folder, const std::string& name) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() == name) return true;
  }
  return false;
}

bool any_checkpoint(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().parent_path().filename() == "checkpoints") return true;
  }
  return false;
}

// The stopwatch looks at files, and only when its thread has its turn.
constexpr double kStopwatchOff_s = 0.25;

class LiveTime : public testing::TestWithParam<const char*> {};

TEST_P(LiveTime, AddsUpToTheStopwatch) {
  const TempFolder folder;
  // The only checkpoint is the last one, which is begun the moment that the run has finished.
  Program train({"train",
                 write_job(folder, "job", "epochs = 1.75\n",
                           fmt::format("[checkpoint]\nevery_epochs = 100\n[[device]]\ncount = 3\npace_ms = "
                                       "40\n[[device]]\npace_ms = 80\n[sync]\npolicy = \"{}\"\n",
                                       GetParam()))
                     .string(),
                 "--set", "data.test_samples=2"});
  const auto runs = folder / "job/runs";
  ASSERT_TRUE(train.until([&] { return any_file(runs, "metrics.jsonl"); }));
  const auto began = steady_clock::now();
  ASSERT_TRUE(train.until([&] { return metrics_so_far(runs) >= 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto victims = children(train.pid(), "w1");
  ASSERT_EQ(victims.size(), 1u);
  kill(victims[0], SIGKILL);
  ASSERT_TRUE(train.until([&] { return any_checkpoint(runs); }));
  const double wall = std::chrono::duration<double>(steady_clock::now() - began).count();
  const Ended ended = train.wait();
  ASSERT_EQ(ended.status, 0) << ended.errors;
  ASSERT_NE(ended.errors.find("w1 was lost (killed by signal 9"), std::string::npos) << ended.errors;

  const Ended report = run({"report", only_run(runs).string(), "--time", "--json"});
  ASSERT_EQ(report.status, 0) << report.errors;
  const json time = json::parse(report.output);
  ASSERT_EQ(time.at("devices").size(), 4u);
  for (const json& device : time.at("devices")) {
    double sum = 0;
    for (const auto& [key, value] : device.items()) {
      if (key.ends_with("_s")) sum += value.get<double>();
    }
    EXPECT_NEAR(sum, wall, std::max(0.01 * wall, kStopwatchOff_s)) << device;
  }
  const json& victim = time.at("devices").at(1);
  EXPECT_GT(victim.at("recovering_s").get<double>() + victim.at("gone_s").get<double>(), 0.1);
  EXPECT_GE(time.at("servers").size(), 1u) << "servers say what commits take under every policy";
}

std::string name_of(const testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Policies, LiveTime, testing::Values("bsp", "ssp:3", "elastic-bsp:15", "cgp:S=4"),
                         name_of);

}  // namespace
}  // namespace paceline::tests

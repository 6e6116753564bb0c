// The ledger of real processes against the wall clock, under one policy of each kind and with a worker killed: each
// device's causes add up to the time from the opening of the run's books to its end, within 1 %; and a stopwatch has
// seen no less of it and no more.
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
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

double seconds_since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

// From the opening of the run's books to its last commit, by the wall clock at the opening and at the first release of
// the last attempt, and by the job's clock from that release on.
double recorded_wall_s(const fs::path& run_folder) {
  const auto journal = store::JournalReader::open(store::RunPaths{run_folder}.journal());
  const auto about = journal->run();
  std::int64_t opened_ns = std::stoll(about->at("opened_1")), released_ns = 0, job_ns = 0;
  for (std::size_t attempt = 1; attempt <= journal->attempts()->size(); ++attempt) {
    const auto found = about->find(fmt::format("released_{}", attempt));
    if (found == about->end()) continue;
    std::istringstream(found->second) >> released_ns >> job_ns;
  }
  const auto last = RecordedRun::read(run_folder).commits.back().first.time_since_epoch();
  return static_cast<double>(released_ns - opened_ns + Duration(last).count() - job_ns) / 1e9;
}

class LiveTime : public testing::TestWithParam<const char*> {};

TEST_P(LiveTime, AddsUpToTheWallClock) {
  const TempFolder folder;
  // The only checkpoint is the last one, which is begun the moment that the run has finished.
  const auto before = steady_clock::now();
  Program train({"train",
                 write_job(folder, "job", "epochs = 4\n",
                           fmt::format("[checkpoint]\nevery_epochs = 100\n[[device]]\ncount = 3\npace_ms = "
                                       "40\n[[device]]\npace_ms = 80\n[sync]\npolicy = \"{}\"\n",
                                       GetParam()))
                     .string(),
                 "--set", "data.test_samples=2"});
  const auto runs = folder / "job/runs";
  ASSERT_TRUE(train.until([&] { return any_file(runs, "metrics.jsonl"); }));
  const auto began = steady_clock::now();
  ASSERT_TRUE(train.until([&] { return metrics_so_far(runs) >= 1; }));
  const auto victims = children(train.pid(), "w1");
  ASSERT_EQ(victims.size(), 1u);
  const double least_s = seconds_since(began);
  kill(victims[0], SIGKILL);
  ASSERT_TRUE(train.until([&] { return any_checkpoint(runs); }));
  const double most_s = seconds_since(before);
  const Ended ended = train.wait();
  ASSERT_EQ(ended.status, 0) << ended.errors;
  ASSERT_NE(ended.errors.find("w1 was lost (killed by signal 9"), std::string::npos) << ended.errors;

  const Ended report = run({"report", only_run(runs).string(), "--time", "--json"});
  ASSERT_EQ(report.status, 0) << report.errors;
  const json time = json::parse(report.output);
  ASSERT_EQ(time.at("devices").size(), 4u);
  const double wall_s = recorded_wall_s(only_run(runs));
  EXPECT_GE(wall_s, least_s);
  EXPECT_LE(wall_s, most_s);
  for (const json& device : time.at("devices")) {
    double sum = 0;
    for (const auto& [key, value] : device.items()) {
      if (key.ends_with("_s")) sum += value.get<double>();
    }
    EXPECT_NEAR(sum, wall_s, 0.01 * wall_s) << device;
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

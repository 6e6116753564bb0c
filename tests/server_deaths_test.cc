// Servers are killed again and again, at any moment: their shards stay in memory, and no commit is lost.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

constexpr int kKills = 50;
constexpr char kBack[] = "and nothing is lost";

// Four replicas, the last one three times slower. Some servers die while they write a checkpoint, or while an
// evaluation needs an older version.
fs::path job(const TempFolder& folder, const std::string& policy, int servers, int epochs) {
  return write_job(folder, "job", fmt::format("epochs = {}\n", epochs),
                   fmt::format("[sync]\npolicy = \"{}\"\n[evaluate]\nevery_epochs = 0.5\n"
                               "[checkpoint]\nevery_epochs = 0.2\n[cluster]\nservers = {}\n"
                               "[[device]]\ncount = 3\npace_ms = 10\n[[device]]\npace_ms = 30\n",
                               policy, servers));
}

int times(const std::string& word, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Kills a server, and sometimes the next one before it has started. Returns once a server is back, or the run is over.
void kill_one(Program& train, Rng& rng) {
  const int back = times(kBack, train.errors_so_far());
  const auto servers = children(train.pid(), "server");
  if (servers.empty()) return;
  kill(servers[rng.below(servers.size())], SIGKILL);
  const auto kill_next = [&] {
    for (const pid_t one : children(train.pid(), "server")) {
      if (std::find(servers.begin(), servers.end(), one) == servers.end()) return kill(one, SIGKILL) == 0;
    }
    return false;
  };
  if (rng.below(4) == 0) {
    const bool killed = train.until(kill_next);
    EXPECT_TRUE(killed || !train.running()) << train.errors_so_far();
  }
  const bool is_back = train.until([&] { return times(kBack, train.errors_so_far()) > back; });
  EXPECT_TRUE(is_back || !train.running()) << train.errors_so_far();
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(60'000)));
}

void expect_nothing_lost(const Ended& ended, const fs::path& run_folder) {
  EXPECT_GT(times(kBack, ended.errors), 0) << ended.errors;
  EXPECT_EQ(ended.errors.find("going on from"), std::string::npos) << ended.errors;
  EXPECT_EQ((ended.output + ended.errors).find("commits lost"), std::string::npos) << ended.output;
  const Ended replayed = run({"replay", run_folder.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

class ServersKilledUnderBsp : public testing::TestWithParam<int> {};

TEST_P(ServersKilledUnderBsp, TheRunEndsInTheWeightsOfAnUndisturbedOne) {
  constexpr int kEpochs = 8;
  const TempFolder folder, calm;
  Program train({"train", job(folder, "bsp", GetParam(), kEpochs).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "job/runs") >= 1; }));
  ASSERT_TRUE(train.until([&] { return newest_metric(folder / "job/runs", "commits") >= 1; }));
  Rng rng(static_cast<std::uint64_t>(GetParam()));
  for (int kills = 0; kills < kKills && train.running(); ++kills) kill_one(train, rng);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path run_folder = only_run(folder / "job/runs");
  expect_nothing_lost(ended, run_folder);
  expect_each_sample_once(RecordedRun::read(run_folder), kEpochs);
  const Ended undisturbed = run({"train", job(calm, "bsp", GetParam(), kEpochs).string()});
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.errors;
  EXPECT_EQ(checkpoint_weights(run_folder), checkpoint_weights(only_run(calm / "job/runs")));
}

INSTANTIATE_TEST_SUITE_P(Servers, ServersKilledUnderBsp, testing::Values(1, 3));

// The run is long enough for all kills, and is then stopped.
class ServersKilled : public testing::TestWithParam<const char*> {};

TEST_P(ServersKilled, NoCommitIsLost) {
  const TempFolder folder;
  Program train({"train", job(folder, GetParam(), 2, 100'000).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "job/runs") >= 1; }));
  ASSERT_TRUE(train.until([&] { return newest_metric(folder / "job/runs", "commits") >= 1; }));
  Rng rng(7);
  for (int kills = 0; kills < kKills && !HasFailure(); ++kills) kill_one(train, rng);
  train.signal(SIGTERM);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.errors;
  const fs::path run_folder = only_run(folder / "job/runs");
  expect_nothing_lost(ended, run_folder);
  expect_no_sample_twice(RecordedRun::read(run_folder));
}

INSTANTIATE_TEST_SUITE_P(Policies, ServersKilled, testing::Values("asp", "ssp:3", "cgp"),
                         [](const auto& one) { return std::string(one.param).substr(0, 3); });

// The launcher kills the server, and the next one takes up the memory.
TEST(ServerDeaths, AServerThatHangsLosesNothing) {
  const TempFolder folder;
  Program train({"train", job(folder, "asp", 1, 100'000).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "job/runs") >= 1; }));
  ASSERT_TRUE(train.until([&] { return newest_metric(folder / "job/runs", "commits") >= 1; }));
  kill(children(train.pid(), "server").at(0), SIGSTOP);
  EXPECT_TRUE(train.until([&] { return times(kBack, train.errors_so_far()) > 0; })) << train.errors_so_far();
  train.signal(SIGTERM);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.errors;
  EXPECT_NE(ended.errors.find("server 0 was silent for"), std::string::npos) << ended.errors;
  expect_nothing_lost(ended, only_run(folder / "job/runs"));
}

// LAMB steps whole tensors, and its state ends with the server.
TEST(ServerDeaths, UnderLambTheRunGoesBackToItsCheckpoint) {
  const TempFolder folder;
  const fs::path lamb = job(folder, "asp", 1, 100'000);
  write_text(lamb, read_text(lamb) + "[optimizer]\nname = \"lamb\"\n");
  Program train({"train", lamb.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "job/runs") >= 1; }));
  kill(children(train.pid(), "server").at(0), SIGKILL);
  EXPECT_TRUE(train.until([&] { return times("going on from", train.errors_so_far()) > 0; }))
      << train.errors_so_far();
  train.signal(SIGTERM);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.errors;
  EXPECT_EQ(times(kBack, ended.errors), 0) << ended.errors;
}

}  // namespace
}  // namespace paceline::tests

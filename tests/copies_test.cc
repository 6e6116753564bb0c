// Jobs whose hosts keep the weights twice (cluster.copies = 2): a server or a coordinator that is killed at
// any moment takes no commit with it, though no checkpoint is ever due before the end.
#include <algorithm>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

constexpr int kEpochs = 3;
constexpr int kKills = 2;

std::vector<std::string> train_with(const fs::path& job, const std::string& policy,
                                    const std::string& devices, int hosts) {
  std::vector<std::string> words{"train", job.string()};
  for (const std::string& set :
       {fmt::format("cluster.hosts={}", hosts), std::string("cluster.copies=2"),
        std::string("checkpoint.every_epochs=1000"), "sync.policy=" + policy, "device=" + devices})
    words.insert(words.end(), {"--set", set});
  return words;
}

fs::path job_in(const TempFolder& folder) {
  return small_job(folder.path(), fmt::format("epochs = {}\nthreads = 1\n", kEpochs));
}

// The lost commits of each attempt but the last, in order, from the journal.
std::vector<std::string> said_lost(const fs::path& run_folder) {
  const auto journal = store::JournalReader::open(store::RunPaths{run_folder}.journal());
  const auto about = journal->run();
  std::vector<std::string> lost;
  for (std::size_t attempt = 1; attempt < journal->attempts()->size(); ++attempt) {
    const auto found = about->find(fmt::format("lost_commits_{}", attempt));
    lost.push_back(found == about->end() ? "nothing said" : found->second);
  }
  return lost;
}

// Every version that a replica computed on, in any attempt, is in what the later ones went on from.
void expect_nothing_seen_is_lost(const fs::path& run_folder) {
  const auto journal = store::JournalReader::open(store::RunPaths{run_folder}.journal());
  const auto attempts = journal->attempts();
  for (std::size_t i = 0; i + 1 < attempts->size(); ++i) {
    Version seen(0);
    for (const control::Fact& fact : RecordedRun::read(run_folder, (*attempts)[i].number).facts) {
      if (const auto* ready = std::get_if<control::ReplicaReady>(&fact.what))
        seen = std::max(seen, ready->base);
    }
    EXPECT_LE(seen, (*attempts)[i + 1].from) << "attempt " << i + 1;
  }
}

// The last attempt that has committed anything; 0 if none has.
std::int64_t committing(const fs::path& runs) {
  if (metrics_so_far(runs) == 0) return 0;
  auto journal = store::JournalReader::open(store::RunPaths{only_run(runs)}.journal());
  const auto attempts = journal.ok() ? journal->attempts() : journal.status();
  if (!attempts.ok()) return 0;
  for (std::int64_t attempt = std::ssize(*attempts); attempt > 0; --attempt) {
    bool any = false;
    const absl::Status read =
        journal->commits([&](Time, const control::CommitRecord&) { any = true; }, attempt);
    if (read.ok() && any) return attempt;
  }
  return 0;
}

// Kills one process of each of these kinds at random moments, each time when the run has gone on for a while.
// How often.
int disturb(Program& train, const fs::path& runs, Rng& rng, const std::vector<std::string>& kinds) {
  std::int64_t last = 0;
  for (int kills = 0; kills < kKills; ++kills) {
    EXPECT_TRUE(eventually([&] { return !train.running() || committing(runs) > last; }));
    last = committing(runs);
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(400)));
    std::vector<pid_t> victims;
    for (const std::string& kind : kinds) {
      const auto all = children(train.pid(), kind);
      if (!train.running() || all.empty()) return kills;
      victims.push_back(all[rng.below(all.size())]);
    }
    for (const pid_t victim : victims) kill(victim, SIGKILL);
  }
  return kKills;
}

// Expects that no attempt of the run lost a commit, by the run's own records and by what was seen.
void expect_nothing_lost(const fs::path& run_folder, const Ended& ended, int kills) {
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_GE(kills, 1);
  const auto lost = said_lost(run_folder);
  EXPECT_EQ(lost, std::vector<std::string>(lost.size(), "0")) << ended.errors;
  EXPECT_GE(static_cast<int>(lost.size()), kills) << ended.errors;
  expect_nothing_seen_is_lost(run_folder);
  expect_kept_samples_once(run_folder, kEpochs);
  EXPECT_NE(ended.output.find("attempts, 0 commits lost"), std::string::npos) << ended.output;
  const Ended replayed = run({"replay", run_folder.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

TEST(Copies, AServerThatIsKilledTakesNoCommitWithIt) {
  const TempFolder folder;
  Rng rng(7);
  Program train(train_with(job_in(folder), "asp", "[{count=3, pace_ms=25}, {pace_ms=40}]", 2));
  const int kills = disturb(train, folder / "runs", rng, {"server"});
  const Ended ended = train.wait();
  const fs::path run_folder = only_run(folder / "runs");
  expect_nothing_lost(run_folder, ended, kills);
  EXPECT_EQ(static_cast<int>(said_lost(run_folder).size()), kills) << ended.errors;
}

TEST(Copies, NorDoesACoordinator) {
  const TempFolder folder;
  Rng rng(8);
  Program train(train_with(job_in(folder), "cgp", "[{count=3, pace_ms=25}, {pace_ms=40}]", 2));
  const int kills = disturb(train, folder / "runs", rng, {"coordinator"});
  const Ended ended = train.wait();
  expect_nothing_lost(only_run(folder / "runs"), ended, kills);
  EXPECT_NE(ended.errors.find("the servers still had version "), std::string::npos) << ended.errors;
}

TEST(Copies, NorDoACoordinatorAndAServerAtOnce) {
  const TempFolder folder;
  Rng rng(9);
  Program train(train_with(job_in(folder), "bsp", "[{count=3, pace_ms=25}, {pace_ms=40}]", 3));
  const int kills = disturb(train, folder / "runs", rng, {"coordinator", "server"});
  const Ended ended = train.wait();
  expect_nothing_lost(only_run(folder / "runs"), ended, kills);
  EXPECT_NE(ended.errors.find("the servers still had version "), std::string::npos) << ended.errors;
}

TEST(Copies, ABulkSynchronousRunEndsInTheBytesOfOneThatNobodyDisturbed) {
  const TempFolder one, whole;
  const std::string devices = "[{count=3, pace_ms=25}]";
  std::vector<std::string> alone{"train", job_in(one).string(), "--set", "cluster.servers=3"};
  alone.insert(alone.end(), {"--set", "device=" + devices});
  ASSERT_EQ(run(alone).status, 0);
  const auto expected = checkpoint_weights(only_run(one / "runs"));
  const Ended undisturbed = run(train_with(job_in(whole), "bsp", devices, 3));
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.errors;
  EXPECT_EQ(checkpoint_weights(only_run(whole / "runs")), expected);
  Rng rng(11);
  for (const char* kind : {"server", "coordinator"}) {
    const TempFolder broken;
    Program train(train_with(job_in(broken), "bsp", devices, 3));
    EXPECT_GE(disturb(train, broken / "runs", rng, {kind}), 1);
    const Ended ended = train.wait();
    ASSERT_EQ(ended.status, 0) << ended.errors;
    EXPECT_EQ(checkpoint_weights(only_run(broken / "runs")), expected) << kind;
  }
}

// Stages on different hosts, and a replica beside them.
TEST(Copies, PipelinesOverHostsLoseNothingEither) {
  const auto words_in = [](const TempFolder& folder) {
    auto words = train_with(job_in(folder), "bsp", "[{count=3, pace_ms=25}]", 3);
    for (const char* set :
         {"parallel=static", "micro_batch=4",
          "pipeline=[{devices=[\"w0\",\"w1\"],cuts=[2],samples=16},{devices=[\"w2\"],samples=8}]"})
      words.insert(words.end(), {"--set", set});
    return words;
  };
  const TempFolder whole;
  ASSERT_EQ(run(words_in(whole)).status, 0);
  const auto expected = checkpoint_weights(only_run(whole / "runs"));
  Rng rng(12);
  for (const char* kind : {"server", "coordinator"}) {
    const TempFolder broken;
    Program train(words_in(broken));
    const int kills = disturb(train, broken / "runs", rng, {kind});
    const Ended ended = train.wait();
    expect_nothing_lost(only_run(broken / "runs"), ended, kills);
    EXPECT_EQ(checkpoint_weights(only_run(broken / "runs")), expected) << kind;
  }
}

// Neither copy of a shard is left: what is lost is said.
TEST(Copies, TwoServersAtOnceTakeTheRunBackToItsCheckpoint) {
  const TempFolder folder;
  std::vector<std::string> words = train_with(job_in(folder), "bsp", "[{count=2, pace_ms=25}]", 2);
  words.insert(words.end(), {"--set", "checkpoint.every_epochs=0.5"});
  Program train(words);
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // Stopped first, so that neither gives away what it has when the other one dies.
  const auto servers = children(train.pid(), "server");
  for (const int number : {SIGSTOP, SIGKILL})
    for (const pid_t server : servers) kill(server, number);
  const Ended ended = train.wait();
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("no copy of shard"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("going on from the checkpoint of version"), std::string::npos) << ended.errors;
  expect_kept_samples_once(only_run(folder / "runs"), kEpochs);
}

}  // namespace
}  // namespace paceline::tests

// Replicas that are pipelines of real processes: the same bytes as on one device, under every kind of policy;
// and a stage killed at any moment ends its replica and nothing else.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/text_hash.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

fs::path train(const TempFolder& folder, const std::string& name, const std::string& keys,
               const std::string& sections, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train", write_job(folder, name, keys, sections).string()});
  const Ended ended = run(more);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return only_run(folder / name / "runs");
}

constexpr char kStatic[] = "parallel = \"static\"\nmicro_batch = 3\n";

// Four stages with one unit of small_job's model each: embedding, block, norm, head.
constexpr char kFourStages[] =
    "[[pipeline]]\ndevices = [\"w2\", \"w0\", \"w3\", \"w1\"]\ncuts = [1, 2, 3]\nsamples = 16\n";

TEST(Pipeline, OfAnyCutTrainsToTheWeightsOfOneDevice) {
  const TempFolder folder;
  const fs::path one = train(folder, "one", "epochs = 0.5\nmicro_batch = 3\n", "[[device]]\nbatch = 16\n");
  const auto weights = checkpoint_weights(one);
  ASSERT_FALSE(weights.empty());
  const auto losses = RecordedRun::read(one).commit_losses();
  for (const char* pipeline :
       {"[[pipeline]]\ndevices = [\"w0\"]\nsamples = 16\n",
        "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [2]\nsamples = 16\n",
        "[[pipeline]]\ndevices = [\"w1\", \"w0\", \"w2\"]\ncuts = [1, 3]\nsamples = 16\n", kFourStages}) {
    SCOPED_TRACE(pipeline);
    const TempFolder own;
    const std::string devices =
        fmt::format("[[device]]\ncount = {}\n", std::count(pipeline, pipeline + strlen(pipeline), 'w'));
    const fs::path piped = train(own, "pipe", std::string("epochs = 0.5\n") + kStatic,
                                 devices + pipeline + "[cluster]\nservers = 2\n");
    EXPECT_EQ(checkpoint_weights(piped), weights);
    EXPECT_EQ(RecordedRun::read(piped).commit_losses(), losses);
  }
}

TEST(Pipeline, TrainsToTheWeightsOfPlainBatchesNearly) {
  const TempFolder folder;
  const fs::path whole = train(folder, "whole", "epochs = 0.2\n", "[[device]]\nbatch = 16\n");
  const fs::path piped = train(folder, "piped", std::string("epochs = 0.2\n") + kStatic,
                               std::string("[[device]]\ncount = 4\n") + kFourStages);
  const auto expected = RecordedRun::read(whole).commit_losses();
  const auto found = RecordedRun::read(piped).commit_losses();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

// The sum of devices that share a stage runs in another order.
TEST(Pipeline, WhoseStagesAreSharedTrainsToTheLossesOfOneDeviceNearly) {
  const TempFolder folder;
  const auto losses_of = [&](const fs::path& run_folder) {
    return RecordedRun::read(run_folder).commit_losses();
  };
  const auto expected =
      losses_of(train(folder, "one", "epochs = 0.5\nmicro_batch = 3\n", "[[device]]\nbatch = 16\n"));
  ASSERT_GT(expected.size(), 10u);
  int number = 0;
  // A batch has six micro-batches: with seven devices in a stage one has none.
  for (const char* pipeline :
       {"devices = [[\"w0\", \"w1\"], \"w2\"]\ncuts = [2]",
        "devices = [\"w0\", [\"w2\", \"w1\", \"w3\"]]\ncuts = [1]",
        "devices = [[\"w0\", \"w1\"], [\"w2\", \"w3\", \"w4\"], \"w5\"]\ncuts = [1, 3]",
        "devices = [\"w0\", [\"w1\", \"w2\"], [\"w3\", \"w4\"], \"w5\"]\ncuts = [1, 2, 3]",
        "devices = [[\"w0\", \"w1\", \"w2\", \"w3\", \"w4\", \"w5\", \"w6\"], \"w7\"]\ncuts = [3]"}) {
    SCOPED_TRACE(pipeline);
    const std::string sections =
        fmt::format("[[device]]\ncount = {}\n[[pipeline]]\n{}\nsamples = 16\n[cluster]\nservers = 2\n",
                    std::count(pipeline, pipeline + strlen(pipeline), 'w'), pipeline);
    const std::string name = fmt::format("shared{}", ++number);
    const fs::path shared = train(folder, name, std::string("epochs = 0.5\n") + kStatic, sections);
    const auto found = losses_of(shared);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
    // The same bytes every time, and in virtual time.
    const fs::path in_virtual_time =
        train(folder, name + "virtual", std::string("epochs = 0.5\n") + kStatic, sections, {"--virtual"});
    EXPECT_EQ(checkpoint_weights(in_virtual_time), checkpoint_weights(shared));
    EXPECT_EQ(losses_of(in_virtual_time), found);
    if (number > 1) continue;
    const fs::path again = train(folder, name + "again", std::string("epochs = 0.5\n") + kStatic, sections);
    EXPECT_EQ(checkpoint_weights(again), checkpoint_weights(shared));
  }
}

// A pipeline of two, one of three, and a device alone, of unequal shares: 600 samples are 18 rounds and a
// part of one.
constexpr char kMixed[] =
    "[[device]]\ncount = 5\npace_ms = 20\n[[device]]\npace_ms = 50\n"
    "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [2]\nsamples = 12\n"
    "[[pipeline]]\ndevices = [\"w2\", \"w3\", \"w4\"]\ncuts = [1, 3]\nsamples = 16\n"
    "[[pipeline]]\ndevices = [\"w5\"]\nsamples = 4\n";

class PipelinesUnder : public testing::TestWithParam<const char*> {};

std::string test_name(const testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  name = name.substr(0, name.find(':'));
  std::erase(name, '-');
  return name;
}

TEST_P(PipelinesUnder, TrainOnEachSampleOnceAndAreReplayed) {
  const TempFolder folder;
  const fs::path run_folder =
      train(folder, "run", std::string("epochs = 0.5\n") + kStatic,
            std::string("[cluster]\nservers = 2\n[sync]\npolicy = \"") + GetParam() + "\"\n" + kMixed);
  const RecordedRun recorded = RecordedRun::read(run_folder);
  expect_each_sample_once(recorded, 0.5);
  std::map<std::string, std::int64_t> joined;
  for (const control::Fact& fact : recorded.facts) {
    if (const auto* one = std::get_if<control::ReplicaJoined>(&fact.what)) joined[one->name] = one->batch;
  }
  EXPECT_EQ(joined, (std::map<std::string, std::int64_t>{{"w0+w1", 12}, {"w2+w3+w4", 16}, {"w5", 4}}));
  const Ended replayed = run({"replay", run_folder.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

INSTANTIATE_TEST_SUITE_P(Policies, PipelinesUnder, testing::Values("asp", "elastic-bsp:15", "cgp:k_min=2"),
                         test_name);

TEST(Pipeline, SumsInAGroupToTheBytesOfTheServers) {
  const TempFolder folder;
  const auto weights = [&](const std::string& reduction) {
    return checkpoint_weights(train(folder, reduction, std::string("epochs = 0.5\n") + kStatic,
                                    std::string(kMixed) + "[cluster]\nreduction = \"" + reduction + "\"\n"));
  };
  EXPECT_EQ(weights("group"), weights("servers"));
}

struct Killed {
  const char* policy;
  const char* victim;  // a stage of the pipeline of three
};

void PrintTo(const Killed& one, std::ostream* out) { *out << one.policy << ", " << one.victim; }

// There are so many epochs that a device is killed long before the end.
class StageKilled : public testing::TestWithParam<Killed> {};

TEST_P(StageKilled, EndsItsReplicaAlone) {
  const std::string victim = GetParam().victim;
  const TempFolder folder;
  const fs::path job = write_job(
      folder, "run", std::string("epochs = 8\n") + kStatic,
      std::string("[evaluate]\nevery_epochs = 8\n[sync]\npolicy = \"") + GetParam().policy + "\"\n" + kMixed);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  Rng rng(text_hash(victim + GetParam().policy));
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(30'000)));
  const auto workers = children(train.pid(), "worker");
  kill(children(train.pid(), victim).at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find(victim + " was lost (killed by signal 9"), std::string::npos) << ended.errors;

  const RecordedRun recorded = RecordedRun::read(only_run(folder / "run" / "runs"));
  expect_each_sample_once(recorded, 8);
  EXPECT_EQ(expect_one_left(recorded, ReplicaId(1)),
            fmt::format("stage {}, {}: its stream ended", victim[1] - '2', victim));
  EXPECT_EQ(workers.size(), 6u);
  for (const pid_t pid : workers) EXPECT_TRUE(eventually([&] { return kill(pid, 0) != 0; })) << pid;
}

INSTANTIATE_TEST_SUITE_P(Cases, StageKilled,
                         testing::Values(Killed{"bsp", "w3"}, Killed{"ssp:3", "w4"},
                                         Killed{"cgp:k_min=2", "w2"}));

// Two devices share the first stage, and two the second: each in turn is killed. The device that is left is
// fast, so that many epochs are soon over.
class DeviceOfASharedStageKilled : public testing::TestWithParam<int> {};

TEST_P(DeviceOfASharedStageKilled, EndsItsReplicaAlone) {
  const std::string victim = fmt::format("w{}", GetParam());
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "run", std::string("epochs = 12\n") + kStatic,
                "[evaluate]\nevery_epochs = 12\n[sync]\npolicy = \"cgp:k_min=2\"\n"
                "[[device]]\ncount = 4\npace_ms = 20\n[[device]]\npace_ms = 7\n"
                "[[pipeline]]\ndevices = [\"w4\"]\nsamples = 8\n"
                "[[pipeline]]\ndevices = [[\"w0\", \"w1\"], [\"w2\", \"w3\"]]\ncuts = [2]\nsamples = 16\n");
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  Rng rng(text_hash(victim));
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(30'000)));
  kill(children(train.pid(), victim).at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const RecordedRun recorded = RecordedRun::read(only_run(folder / "run" / "runs"));
  expect_each_sample_once(recorded, 12);
  EXPECT_EQ(expect_one_left(recorded, ReplicaId(1)),
            fmt::format("stage {}, {}: its stream ended", GetParam() / 2, victim));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceOfASharedStageKilled, testing::Values(0, 1, 2, 3));

std::int64_t mapped_channels(pid_t process) {
  const std::string maps = read_text(fmt::format("/proc/{}/maps", process));
  EXPECT_FALSE(maps.empty()) << "process " << process << " is gone";
  std::int64_t count = 0;
  for (std::size_t at = maps.find("paceline-channel"); at != std::string::npos;
       at = maps.find("paceline-channel", at + 1))
    ++count;
  return count;
}

TEST(Pipeline, ThatLosesAStageIsFormedAgainWhenAnotherProcessTakesItsPlace) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string("epochs = 200\n") + kStatic, kMixed);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  const pid_t first = children(train.pid(), "w2").at(0);
  const pid_t victim = children(train.pid(), "w3").at(0);
  const pid_t last = children(train.pid(), "w4").at(0);
  EXPECT_EQ(mapped_channels(first), 1);
  EXPECT_EQ(mapped_channels(victim), 2);
  EXPECT_EQ(mapped_channels(last), 1);
  const std::vector<std::string> worker = worker_beside(victim, "w3");
  kill(victim, SIGKILL);
  const fs::path run_folder = only_run(folder / "run" / "runs");
  const auto replicas_live = [&] { return newest_metric(folder / "run" / "runs", "replicas_live"); };
  ASSERT_TRUE(train.until([&] { return replicas_live() == 2; }));
  EXPECT_TRUE(train.until([&] { return mapped_channels(first) == 0 && mapped_channels(last) == 0; }))
      << "the others have not left it";
  Program again(worker);
  EXPECT_TRUE(again.until([&] { return replicas_live() == 3; }));
  EXPECT_EQ(mapped_channels(first), 1);
  EXPECT_EQ(mapped_channels(last), 1);
  train.signal(SIGTERM);
  EXPECT_EQ(train.wait().status, 128 + SIGTERM);
  EXPECT_EQ(again.wait().status, 0);
  const RecordedRun recorded = RecordedRun::read(run_folder);
  std::vector<ReplicaId> joined;
  for (const control::Fact& fact : recorded.facts) {
    const auto* one = std::get_if<control::ReplicaJoined>(&fact.what);
    if (one != nullptr && one->name == "w2+w3+w4") joined.push_back(one->replica);
  }
  EXPECT_EQ(joined, (std::vector<ReplicaId>{ReplicaId(1), ReplicaId(3)}));
  expect_no_sample_twice(recorded);
}

TEST(Pipeline, ThatIsTheOnlyReplicaEndsTheRunWithAWayBack) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string("epochs = 20\n") + kStatic,
                                 std::string("[[device]]\ncount = 4\npace_ms = 20\n") + kFourStages);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  kill(children(train.pid(), "w3").at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.errors.find("every replica lost a worker"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("--resume"), std::string::npos) << ended.errors;
}

TEST(Pipeline, ThatDoesNotFitTheModelDoesNotStart) {
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "run", kStatic, std::string("[[device]]\ncount = 4\n") + kFourStages);
  const Ended live = run({"train", job.string(), "--set", "work=[1, 2]"});
  EXPECT_EQ(live.status, 2);
  EXPECT_NE(live.errors.find("--set work=[1, 2]: lists 2 units, but gpt-byte has 4"), std::string::npos)
      << live.errors;
  const Ended in_virtual_time = run({"train", job.string(), "--virtual", "--set",
                                     "pipeline=[{devices=[\"w0\",\"w1\",\"w2\",\"w3\"],cuts=[1,2,4]}]"});
  EXPECT_EQ(in_virtual_time.status, 2);
  EXPECT_NE(in_virtual_time.errors.find("cuts=[1,2,4]}]: pipeline.cuts: 4 is not a unit of gpt-byte"),
            std::string::npos)
      << in_virtual_time.errors;
}

TEST(Pipeline, GivesTheSameWeightsInVirtualTime) {
  const TempFolder folder;
  const std::string keys = std::string("epochs = 0.5\n") + kStatic;
  const fs::path live = train(folder, "live", keys, kMixed);
  const fs::path in_virtual_time = train(folder, "virtual", keys, kMixed, {"--virtual"});
  EXPECT_EQ(checkpoint_weights(in_virtual_time), checkpoint_weights(live));
  EXPECT_EQ(RecordedRun::read(in_virtual_time).commit_losses(), RecordedRun::read(live).commit_losses());
  EXPECT_EQ(run({"replay", in_virtual_time.string()}).status, 0);
}

TEST(Pipeline, TakesTheTimeOfItsStagesInVirtualTime) {
  const TempFolder folder;
  // 1,200 samples are 100 rounds of 12, in four micro-batches each; a device needs 60 ms for 12 samples and
  // the second is twice as slow from 3 s on. Each micro-batch takes a stage 60 / 4 / 2 ms, or twice as long.
  const fs::path virtually = train(
      folder, "run", std::string("epochs = 1\n") + kStatic,
      "[[device]]\ncount = 2\nbatch = 12\npace_ms = 60\n[[change]]\ndevice = 1\nat_s = 1.8749\nfactor = 2\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [2]\nsamples = 12\n",
      {"--virtual"});
  const auto recorded = RecordedRun::read(virtually);
  const double even_s = 5 * 0.0075;  // four micro-batches and the other stage's part of one
  // the slow stage's micro-batches, and the other stage's part of one
  const double uneven_s = 0.0075 + 4 * 0.015;
  ASSERT_EQ(recorded.commits.size(), 100u);
  EXPECT_NEAR(to_seconds(recorded.commits[49].first), 50 * even_s, 1e-6);
  EXPECT_NEAR(to_seconds(recorded.commits[99].first), 50 * even_s + 50 * uneven_s, 1e-6);
}

TEST(Pipeline, WhoseStageHangsIsGivenUp) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string("epochs = 4\n") + kStatic, kMixed);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  kill(children(train.pid(), "w4").at(0), SIGSTOP);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  expect_each_sample_once(RecordedRun::read(only_run(folder / "run" / "runs")), 4);
}

TEST(Pipeline, ResumesToTheWeightsOfAnUndisturbedRun) {
  const TempFolder folder;
  const std::string sections = std::string("[checkpoint]\nevery_epochs = 0.2\n") + kMixed;
  const fs::path undisturbed = train(folder, "whole", std::string("epochs = 2\n") + kStatic, sections);
  Program interrupted(
      {"train", write_job(folder, "half", std::string("epochs = 2\n") + kStatic, sections).string()});
  ASSERT_TRUE(interrupted.until([&] { return metrics_so_far(folder / "half" / "runs") >= 1; }));
  interrupted.signal(SIGTERM);
  EXPECT_EQ(interrupted.wait().status, 128 + SIGTERM);
  const fs::path run_folder = only_run(folder / "half" / "runs");
  const Ended resumed = run({"train", "--resume", run_folder.string()});
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(checkpoint_weights(run_folder), checkpoint_weights(undisturbed));
}

}  // namespace
}  // namespace paceline::tests

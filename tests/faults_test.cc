// Real processes killed, stopped and interrupted: the others go on, every sample is trained on exactly once,
// and a run resumes where it was.
#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/rng.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

// Four replicas, the last one three times slower, checkpoints every fifth of an epoch.
std::string cluster(const std::string& policy, double epochs, int pace_ms) {
  return fmt::format(
      "epochs = {}\n[sync]\npolicy = \"{}\"\n[evaluate]\nevery_epochs = 0.5\n[checkpoint]\nevery_epochs = "
      "0.2\n"
      "[[device]]\ncount = 3\npace_ms = {}\n[[device]]\npace_ms = {}\n",
      epochs, policy, pace_ms, 3 * pace_ms);
}

fs::path job_with(const TempFolder& folder, const std::string& more) {
  const fs::path job = small_job(folder.path(), "");
  const std::size_t first_section = more.find('[');
  write_text(job, more.substr(0, first_section) + read_text(job) + more.substr(first_section));
  return job;
}

// Roles that compute nothing may be started again and again, and libtorch takes half a second.
TEST(Roles, ThatComputeNothingDoNotLoadLibtorch) {
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster("bsp", 2, 20)).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const auto has_libtorch = [&](const std::string& role) {
    std::vector<pid_t> found;
    // An evaluator runs at the lowest priority, so training may begin before it is there.
    EXPECT_TRUE(train.until([&] {
      found = children(train.pid(), role);
      return !found.empty();
    }));
    EXPECT_EQ(found.size(), 1u) << role;
    if (found.empty()) return false;
    return read_text(fmt::format("/proc/{}/maps", found[0])).find("libtorch") != std::string::npos;
  };
  EXPECT_FALSE(has_libtorch("coordinator"));
  EXPECT_FALSE(has_libtorch("server"));
  EXPECT_TRUE(has_libtorch("evaluator"));
  EXPECT_EQ(train.wait().status, 0);
}

class WorkerKilled : public testing::TestWithParam<const char*> {};

TEST_P(WorkerKilled, TheOthersTrainOnItsSamples) {
  const int epochs = GetParam() == std::string("bsp") ? 4 : 8;  // eight seconds
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster(GetParam(), epochs, 20)).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const auto victims = children(train.pid(), "w1");
  ASSERT_EQ(victims.size(), 1u);
  kill(victims[0], SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("w1 was lost (killed by signal 9"), std::string::npos) << ended.errors;

  const RecordedRun recorded = RecordedRun::read(only_run(folder / "runs"));
  expect_each_sample_once(recorded, epochs);
  const auto left = std::find_if(recorded.facts.begin(), recorded.facts.end(), [](const control::Fact& fact) {
    return std::holds_alternative<control::ReplicaLeft>(fact.what);
  });
  ASSERT_NE(left, recorded.facts.end());
  const std::int64_t after = std::count_if(recorded.commits.begin(), recorded.commits.end(),
                                           [&](const auto& commit) { return commit.first > left->at; });
  EXPECT_GT(after, 0) << "nobody went on";
}

std::string test_name(const testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, WorkerKilled, testing::Values("bsp", "elastic-bsp:5"), test_name);

// Its members sum among themselves; two of four are killed at any moment, one after the other.
class GroupMembersKilled : public testing::TestWithParam<const char*> {};

TEST_P(GroupMembersKilled, TheOthersTrainOnTheirSamples) {
  // enough to be still training at the second victim's turn
  const int epochs = GetParam() == std::string("bsp") ? 6 : 12;
  Rng rng(5);
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    const TempFolder folder;
    const std::string job = cluster(GetParam(), epochs, 15) + "[cluster]\nreduction = \"group\"\n";
    Program train({"train", job_with(folder, job).string(), "--set", "model.width=128"});
    ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
    for (const char* victim : {"w1", "w3"}) {
      std::this_thread::sleep_for(std::chrono::microseconds(rng.below(50'000)));
      kill(children(train.pid(), victim).at(0), SIGKILL);
    }
    const Ended ended = train.wait();
    EXPECT_EQ(ended.status, 0) << ended.errors;
    expect_each_sample_once(RecordedRun::read(only_run(folder / "runs")), epochs);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GroupMembersKilled, testing::Values("bsp", "cgp"), test_name);

int mapped_gradients(pid_t process) {
  const std::string maps = read_text(fmt::format("/proc/{}/maps", process));
  int count = 0;
  for (std::size_t at = maps.find("paceline-gradient"); at != std::string::npos;
       at = maps.find("paceline-gradient", at + 1))
    ++count;
  return count;
}

TEST(Faults, AServerUnmapsWhatADeadWorkerLeft) {
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster("asp", 200, 20)).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const auto servers = children(train.pid(), "server");
  ASSERT_EQ(servers.size(), 1u);
  // Training may begin before all workers are there.
  ASSERT_TRUE(train.until([&] { return mapped_gradients(servers[0]) == 4; }));
  kill(children(train.pid(), "w0").at(0), SIGKILL);
  EXPECT_TRUE(train.until([&] { return mapped_gradients(servers[0]) == 3; }));
}

TEST(Faults, AMemberUnmapsWhatADeadMemberLeft) {
  const TempFolder folder;
  const std::string job = cluster("bsp", 200, 20) + "[cluster]\nreduction = \"group\"\n";
  Program train({"train", job_with(folder, job).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const auto members = children(train.pid(), "w2");
  ASSERT_EQ(members.size(), 1u);
  ASSERT_TRUE(train.until([&] { return mapped_gradients(members[0]) == 4; }));
  kill(children(train.pid(), "w0").at(0), SIGKILL);
  EXPECT_TRUE(train.until([&] { return mapped_gradients(members[0]) == 3; }));
}

// A job that is struck once it has a checkpoint. A checkpoint is seen only when the disk has it, which may
// take long; so the run is not over soon after the first one.
std::string job_to_strike() { return cluster("bsp", 1, 45); }

// The weights of that job after a run without any fault.
const std::map<std::string, std::string>& undisturbed() {
  static const auto weights = [] {
    const TempFolder folder;
    const Ended ended = run({"train", job_with(folder, job_to_strike()).string()});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    return checkpoint_weights(only_run(folder / "runs"));
  }();
  return weights;
}

void expect_resumes_to(const fs::path& run_folder, const std::map<std::string, std::string>& weights,
                       double epochs, int servers) {
  Ended resumed;
  // The children of a killed run die with it, but not in the same instant.
  ASSERT_TRUE(eventually([&] {
    resumed =
        run({"train", "--resume", run_folder.string(), "--set", fmt::format("cluster.servers={}", servers)});
    return resumed.errors.find("in use") == std::string::npos;
  }));
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(checkpoint_weights(run_folder), weights) << "the weights of an undisturbed run, to the last bit";
  const RecordedRun last = RecordedRun::read(run_folder, 2);
  ASSERT_FALSE(last.commits.empty());
  EXPECT_EQ(last.commits.back().second.committed_after(),
            static_cast<std::int64_t>(epochs * kSmallJobSamples));
  // The report is of both attempts: each version once, each replica in one row.
  const auto report = nlohmann::json::parse(read_text(run_folder / "summary.json"));
  EXPECT_EQ(report.at("summary").at("commits"), last.commits.back().second.version.value());
  EXPECT_EQ(report.at("summary").at("start_s"), 0);
  EXPECT_EQ(report.at("replicas").size(), 4u);
}

// Under BSP the sum does not depend on who was first, so a resumed run must end in the very same bytes: the
// same sample order, the same clocks, the same optimizer state.
TEST(Faults, AnInterruptedRunResumesToTheSameWeights) {
  const TempFolder folder;
  Program train({"train", job_with(folder, job_to_strike()).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  ASSERT_TRUE(train.until([&] { return newest_metric(folder / "runs", "commits") >= 1; }));
  train.signal(SIGTERM);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.errors;
  EXPECT_NE(ended.errors.find("resume with: paceline train --resume"), std::string::npos) << ended.errors;
  const fs::path run_folder = only_run(folder / "runs");
  expect_resumes_to(run_folder, undisturbed(), 1, 1);
  // Nothing was lost, so that the samples in the metrics never become fewer.
  std::istringstream lines(read_text(run_folder / "metrics.jsonl"));
  std::int64_t samples = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto metrics = nlohmann::json::parse(line);
    if (metrics.at("kind") != "snapshot") continue;
    EXPECT_GE(metrics.at("samples"), samples) << line;
    samples = metrics.at("samples");
  }
}

// The run resumes on more servers than it had.
TEST(Faults, ARunKilledWholeResumesFromItsLastCheckpoint) {
  const TempFolder folder;
  fs::path run_folder;
  {
    Program train({"train", job_with(folder, job_to_strike()).string()});
    ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
    run_folder = only_run(folder / "runs");
    train.signal(SIGKILL);
    train.wait();
  }
  expect_resumes_to(run_folder, undisturbed(), 1, 3);
}

// A run that stopped after half an epoch, with two checkpoints. The newer one is damaged.
class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() {
    EXPECT_EQ(run({"train", job_with(folder_, cluster("bsp", 0.5, 5)).string()}).status, 0);
    run_folder_ = only_run(folder_ / "runs");
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(run_folder_ / "checkpoints")) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all.size(), 2u);
    older_ = std::stoll(all.front().filename().string().substr(1));
    newer_ = std::stoll(all.back().filename().string().substr(1));
    damage(all.back());
  }

  static void damage(const fs::path& checkpoint) {
    const fs::path file = checkpoint / "weights-1-of-1.safetensors";
    std::string bytes = read_text(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text(file, bytes);
  }

  fs::path checkpoint(std::int64_t version) const {
    return run_folder_ / "checkpoints" / fmt::format("v{:012}", version);
  }

  const TempFolder folder_;
  fs::path run_folder_;
  std::int64_t older_ = 0, newer_ = 0;
};

TEST_F(DamagedCheckpoint, IsPassedOver) {
  const Ended resumed = run({"train", "--resume", run_folder_.string(), "--set", "epochs=1.0"});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find(fmt::format("going on from the checkpoint of version {}: {} commit", older_,
                                            newer_ - older_)),
            std::string::npos)
      << resumed.errors;
  expect_kept_samples_once(run_folder_, 1);
  EXPECT_TRUE(fs::exists(checkpoint(newer_).string() + ".set-aside")) << "nothing is deleted";
}

// All is trained, but the weights of that are not to be had any more.
TEST_F(DamagedCheckpoint, IsNoEndOfARun) {
  const Ended resumed = run({"train", "--resume", run_folder_.string()});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_TRUE(fs::exists(checkpoint(newer_))) << resumed.errors;
  expect_kept_samples_once(run_folder_, 0.5);
}

TEST_F(DamagedCheckpoint, OneOfAnotherVersionCanBeNamed) {
  fs::remove_all(checkpoint(newer_));
  ASSERT_EQ(run({"train", "--resume", run_folder_.string()}).status, 0);
  EXPECT_TRUE(fs::exists(checkpoint(newer_)));
  const auto from = [&](std::int64_t version) {
    return run({"train", "--resume", run_folder_.string(), "--from", std::to_string(version)});
  };
  const Ended none = from(newer_ + 1);
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.errors.find(fmt::format("no checkpoint of version {}; it has", newer_ + 1)),
            std::string::npos)
      << none.errors;
  const Ended back = from(older_);
  EXPECT_EQ(back.status, 0) << back.errors;
  expect_kept_samples_once(run_folder_, 0.5);
  EXPECT_TRUE(fs::exists(checkpoint(newer_).string() + ".set-aside"));
  EXPECT_TRUE(fs::exists(checkpoint(newer_))) << "it was made again";
}

TEST(Faults, ASecondTrainInTheSameFolderIsRefused) {
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster("asp", 200, 20)).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const Ended second = run({"train", "--resume", only_run(folder / "runs").string()});
  EXPECT_EQ(second.status, 2);
  EXPECT_NE(second.errors.find("in use"), std::string::npos) << second.errors;
  EXPECT_TRUE(train.running());
}

// A run that is to be struck before it trains may train first, if this process does not get its turn.
constexpr int kTrials = 4;

bool has_trained(const fs::path& runs) {
  return !fs::is_empty(runs) && !RecordedRun::read(only_run(runs)).commits.empty();
}

TEST(Faults, AServerThatDiesBeforeTheStartLeavesOneLine) {
  for (int trial = 1; trial <= kTrials; ++trial) {
    const TempFolder folder;
    Program train({"train", job_with(folder, cluster("asp", 8, 20)).string()});
    ASSERT_TRUE(train.until([&] {
      const auto servers = children(train.pid(), "server");
      return !servers.empty() && kill(servers[0], SIGKILL) == 0;
    }));
    const Ended ended = train.wait();
    if (trial < kTrials && has_trained(folder / "runs")) continue;
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.errors.find("paceline: server0: killed by signal 9 (Killed)\n"), std::string::npos)
        << ended.errors;
    EXPECT_TRUE(fs::is_empty(folder / "runs")) << "it has nothing to tell";
    return;
  }
}

// A run that is resumed has trained before: it is as patient as one that goes back by itself.
class KilledWhileARunComesBack : public testing::TestWithParam<const char*> {};

TEST_P(KilledWhileARunComesBack, IsStartedAgain) {
  const TempFolder folder;
  {
    Program train({"train", job_with(folder, job_to_strike()).string()});
    ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
    train.signal(SIGTERM);
    ASSERT_EQ(train.wait().status, 128 + SIGTERM);
  }
  const fs::path run_folder = only_run(folder / "runs");
  Program resumed({"train", "--resume", run_folder.string()});
  ASSERT_TRUE(resumed.until([&] {
    const auto found = children(resumed.pid(), GetParam());
    return !found.empty() && kill(found[0], SIGKILL) == 0;
  }));
  const Ended ended = resumed.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  // The loss of a coordinator that has not published its address yet is not reported.
  EXPECT_TRUE(GetParam() == std::string("coordinator") ||
              ended.errors.find("was lost (killed by signal 9 (Killed)); it is started again") !=
                  std::string::npos)
      << ended.errors;
  EXPECT_EQ(checkpoint_weights(run_folder), undisturbed());
}

INSTANTIATE_TEST_SUITE_P(Processes, KilledWhileARunComesBack, testing::Values("server", "evaluator"),
                         [](const auto& one) { return std::string(one.param); });

// The server stands still, so that the run does not begin to train.
TEST(Faults, AStopBeforeTheStartLeavesNothing) {
  for (int trial = 1; trial <= kTrials; ++trial) {
    const TempFolder folder;
    Program train({"train", job_with(folder, cluster("asp", 8, 20)).string()});
    ASSERT_TRUE(train.until([&] {
      const auto servers = children(train.pid(), "server");
      return !servers.empty() && kill(servers[0], SIGSTOP) == 0;
    }));
    train.signal(SIGINT);
    const Ended ended = train.wait();
    if (trial < kTrials && has_trained(folder / "runs")) continue;
    EXPECT_EQ(ended.status, 128 + SIGINT) << ended.errors;
    EXPECT_TRUE(fs::is_empty(folder / "runs")) << ended.errors;
    return;
  }
}

// The coordinator stands still, so that the checkpoint of the first stop never comes. It cannot be a server:
// one that is silent for two seconds is given up, and then the run ends by itself.
TEST(Faults, ASecondInterruptStopsAtOnce) {
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster("bsp", 200, 15)).string()});
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  kill(children(train.pid(), "coordinator").at(0), SIGSTOP);
  train.signal(SIGINT);
  ASSERT_TRUE(train.until_said("once more"));
  // A second signal that comes at once may count as the same one.
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  train.signal(SIGINT);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.errors;
  EXPECT_NE(ended.errors.find("paceline: stopped at once; resume with: paceline train --resume"),
            std::string::npos)
      << ended.errors;
  EXPECT_EQ(ended.errors.find("killed"), std::string::npos) << ended.errors;
}

// Under BSP the run must end in the very same bytes as an undisturbed one.
class NeededOneKilled : public testing::TestWithParam<const char*> {};

TEST_P(NeededOneKilled, TheRunGoesOnByItselfToTheSameWeights) {
  const TempFolder folder;
  Program train({"train", job_with(folder, job_to_strike()).string()});
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  kill(children(train.pid(), GetParam()).at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("going on from the checkpoint of version"), std::string::npos) << ended.errors;
  const fs::path run_folder = only_run(folder / "runs");
  expect_kept_samples_once(run_folder, 1);
  EXPECT_EQ(checkpoint_weights(run_folder), undisturbed());
  const Ended replayed = run({"replay", run_folder.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

INSTANTIATE_TEST_SUITE_P(Processes, NeededOneKilled, testing::Values("coordinator"),
                         [](const auto& one) { return std::string(one.param); });

// There is nearly always an evaluation under way. It stops with its session, and the evaluator goes on.
TEST(Faults, ACoordinatorThatDiesDuringAnEvaluationCostsNoEvaluator) {
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster("bsp", 2, 20)).string(), "--set", "data.test_samples=590",
                 "--set", "model.layers=4", "--set", "evaluate.every_epochs=0.02"});
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  kill(children(train.pid(), "coordinator").at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(ended.errors.find("evaluator was lost"), std::string::npos) << ended.errors;
  EXPECT_FALSE(RecordedRun::read(only_run(folder / "runs")).evaluations.empty());
}

// Workers are forks of a process that is not needed once they run; without it they start as new processes.
TEST(Faults, AForkServerThatDiesIsNobodysLoss) {
  const TempFolder folder;
  Program train({"train", job_with(folder, job_to_strike()).string()});
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  kill(children(train.pid(), "fork-server").at(0), SIGKILL);
  kill(children(train.pid(), "w1").at(0), SIGKILL);
  ASSERT_TRUE(train.until([&] { return children(train.pid(), "w1").empty(); }));
  kill(children(train.pid(), "coordinator").at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("w1 is started again"), std::string::npos) << ended.errors;
  EXPECT_EQ(ended.errors.find("fork"), std::string::npos) << ended.errors;
  expect_kept_samples_once(only_run(folder / "runs"), 1);
}

// Blocks readers of this file while it lives: opening the file waits because of a lease (fcntl(2)), but not
// for longer than the system allows, mostly 45 s. So a job with this file as its data does not begin to
// train. If a file system has no leases, it blocks nobody.
class HeldFile {
 public:
  explicit HeldFile(const fs::path& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    // a signal for a waiting reader; the usual SIGIO would end this process
    fcntl(file_.get(), F_SETSIG, SIGURG);
    fcntl(file_.get(), F_SETLEASE, F_WRLCK);
  }
  void let_go() { file_ = FileDescriptor(); }

 private:
  FileDescriptor file_;
};

TEST(Faults, AForkServerThatDiesAtTheStartIsNobodysLoss) {
  const TempFolder folder;
  const fs::path job = job_with(folder, job_to_strike());
  HeldFile data(folder / "text.txt");
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] {
    const auto found = children(train.pid(), "fork-server");
    return !found.empty() && kill(found[0], SIGKILL) == 0;
  }));
  data.let_go();
  EXPECT_EQ(train.wait().status, 0);
  EXPECT_EQ(checkpoint_weights(only_run(folder / "runs")), undisturbed());
}

// The fork server may read data for minutes before it answers.
TEST(Faults, CtrlCIsHeardWhileTheForkServerIsNotReady) {
  constexpr int kPatience_s = 60;  // a fifth of the time that a run waits for the fork server
  const TempFolder folder;
  Program train({"train", job_with(folder, cluster("bsp", 1, 20)).string()});
  ASSERT_TRUE(train.until([&] {
    const auto found = children(train.pid(), "fork-server");
    return !found.empty() && kill(found[0], SIGSTOP) == 0;
  }));
  train.signal(SIGINT);
  const Ended ended = train.wait(kPatience_s);
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.errors;
}

// The worker was stopped for so long that it was given up. When it goes on it joins as a new one, whether it
// still hears why or its own clock shows that its connection is broken.
TEST(Faults, AWorkerThatWasGivenUpComesAgain) {
  const TempFolder folder;
  const fs::path runs = folder / "runs";
  Program train({"train", job_with(folder, cluster("asp", 200, 20)).string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(runs) >= 1; }));
  // Training may begin before all workers are there.
  ASSERT_TRUE(train.until([&] { return newest_metric(runs, "replicas_live") == 4; }));
  const pid_t worker = children(train.pid(), "w2").at(0);
  kill(worker, SIGSTOP);
  const fs::path log = only_run(runs) / "logs" / "coordinator.log";
  EXPECT_TRUE(train.until([&] { return read_text(log).find("w2 left: silent for") != std::string::npos; }));
  EXPECT_TRUE(train.until([&] { return newest_metric(runs, "replicas_live") == 3; }));
  kill(worker, SIGCONT);
  EXPECT_TRUE(train.until([&] { return newest_metric(runs, "replicas_live") == 4; }));
  expect_goes_on_until_stopped(train, runs);
  const RecordedRun recorded = RecordedRun::read(only_run(runs));
  int joined = 0;
  bool left = false;
  for (const control::Fact& fact : recorded.facts) {
    const auto* in = std::get_if<control::ReplicaJoined>(&fact.what);
    const auto* out = std::get_if<control::ReplicaLeft>(&fact.what);
    if (in != nullptr && in->name == "w2") ++joined;
    if (out != nullptr) left = left || out->why.find(", phi ") != std::string::npos;
  }
  EXPECT_EQ(joined, 2);
  EXPECT_TRUE(left) << "the journal has the reason";
}

}  // namespace
}  // namespace paceline::tests

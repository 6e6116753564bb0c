// `paceline node`: hosts that find each other, as several processes of this machine that share no parent, and
// as network namespaces where those are permitted. With certificates; ranks as launchers say them.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/namespaces.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

class Node : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"certs", (folder_ / "certs").string(), "--job", "small"}).status, 0);
  }

  fs::path job(const std::string& top, const std::string& tables) {
    const fs::path file = small_job(folder_.path(), top);
    write_text(file, read_text(file) +
                         fmt::format("[network]\nlisten = \"0.0.0.0:{}\"\ncerts = \"{}\"\n", port_,
                                     (folder_ / "certs" / "small").string()) +
                         "[checkpoint]\nevery_epochs = 0.2\n" + tables);
    return file;
  }

  std::unique_ptr<Program> host(const fs::path& job, int rank, int hosts,
                                std::vector<std::string> more = {}) {
    std::vector<std::string> words = {
        "node",    job.string(),          "--rank",        std::to_string(rank),
        "--hosts", std::to_string(hosts), "--coordinator", fmt::format("127.0.0.1:{}", port_)};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Program>(words);
  }

  // In its own network.
  std::unique_ptr<Program> host_apart(const testing::Namespaces& apart, const fs::path& job, int rank,
                                      int hosts) {
    std::vector<std::string> words = {
        "node",    job.string(),          "--rank",        std::to_string(rank),
        "--hosts", std::to_string(hosts), "--coordinator", fmt::format("{}:{}", apart.address(0), port_)};
    return std::make_unique<Program>(words, [&apart, rank] { return apart.enter(rank); });
  }

  bool has_checkpoint() const { return tests::has_checkpoint(folder_ / "runs"); }

  const TempFolder folder_;
  const int port_ = free_port();
};

TEST_F(Node, ThreeHostsTrainOneJob) {
  const fs::path file = job("epochs = 1\n", "[[replica]]\ncount = 4\npace_ms = 10\n");
  auto last = host(file, 2, 3);
  auto second = host(file, 1, 3);
  auto first = host(file, 0, 3);
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  for (Program* other : {second.get(), last.get()}) {
    const Ended end = other->wait(60);
    EXPECT_EQ(end.status, 0) << end.errors;
  }
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_each_sample_once(RecordedRun::read(run_folder), 1);
  EXPECT_TRUE(fs::exists(run_folder / "checkpoints"));
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

TEST_F(Node, MnistOnTwoHosts) {
  const std::string data = "../shared/data/mnist";
  if (!fs::exists(data)) GTEST_SKIP() << data << " is not here";
  write_text(folder_ / "mnist.toml",
             fmt::format(
                 "runs_dir = \"{}\"\nepochs = 1\nbatch = 32\n[model]\nname = \"mlp\"\nwidth = 64\n[data]\n"
                 "source = \"mnist:{}\"\n[optimizer]\nlr = 0.02\n[network]\nlisten = \"0.0.0.0:{}\"\ncerts = "
                 "\"{}\"\n[[replica]]\ncount = 4\n",
                 (folder_ / "runs").string(), data, port_, (folder_ / "certs" / "small").string()));
  auto second = host(folder_ / "mnist.toml", 1, 2);
  auto first = host(folder_ / "mnist.toml", 0, 2);
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(second->wait(60).status, 0);
  const RecordedRun recorded = RecordedRun::read(only_run(folder_ / "runs"));
  ASSERT_FALSE(recorded.evaluations.empty());
  EXPECT_GT(recorded.evaluations.back().accuracy, 0.6);  // chance is 0.1
}

// Its server is gone and with it a part of the weights; the run waits for it and goes on from the checkpoint.
TEST_F(Node, AHostThatDiesAndComesBackIsWaitedFor) {
  const fs::path file = job("epochs = 3\n", "[[replica]]\ncount = 2\npace_ms = 40\n");
  auto second = host(file, 1, 2);
  auto first = host(file, 0, 2);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  second->signal(SIGKILL);
  second->wait();
  second = host(file, 1, 2);
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("going on from"), std::string::npos) << ended.errors;
  EXPECT_EQ(second->wait(60).status, 0);
  const auto last = RecordedRun::read(only_run(folder_ / "runs"), 2);
  ASSERT_FALSE(last.commits.empty());
  EXPECT_EQ(last.commits.back().second.committed_after(), 3 * kSmallJobSamples);
}

// It is waited for, and then the others train on all samples; back again, it hears that it was given up.
TEST_F(Node, AHostThatStaysAwayIsGivenUp) {
  const fs::path file =
      job("epochs = 4\n", "[cluster]\nhost_patience_s = 5\n[[replica]]\ncount = 3\npace_ms = 30\n");
  auto last = host(file, 2, 3);
  auto second = host(file, 1, 3);
  auto first = host(file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  second->signal(SIGKILL);
  second->wait();
  const fs::path log = only_run(folder_ / "runs") / "logs" / "coordinator.log";
  ASSERT_TRUE(eventually([&] { return read_text(log).find("did not come back") != std::string::npos; }));
  second = host(file, 1, 3);
  const Ended late = second->wait(60);
  EXPECT_EQ(late.status, 2);
  EXPECT_NE(late.errors.find(" was given up, and the run goes on without it\n"), std::string::npos)
      << late.errors;
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("host 1 did not come back within 5 s; going on without it; going on from "),
            std::string::npos)
      << ended.errors;
  EXPECT_EQ(last->wait(60).status, 0);
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 4);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

// Its neighbour has what it had, and gives it to those that are left.
TEST_F(Node, AHostThatStaysAwayTakesNoCommitWithItWhereWeightsAreKeptTwice) {
  const fs::path file = job(
      "epochs = 4\n", "[cluster]\nreplicas = 2\nhost_patience_s = 5\n[[replica]]\ncount = 3\npace_ms = 30\n");
  auto last = host(file, 2, 3);
  auto second = host(file, 1, 3);
  auto first = host(file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  second->signal(SIGKILL);
  second->wait();
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("going on without it; going on from the checkpoint"), std::string::npos)
      << ended.errors;
  EXPECT_NE(ended.output.find("3 attempts, 0 commits lost"), std::string::npos) << ended.output;
  EXPECT_EQ(last->wait(60).status, 0);
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 4);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

// With it go the coordinator and its books, and a server; the others still have all parts of the weights.
TEST_F(Node, TheFirstHostTakesNoCommitWithItWhereWeightsAreKeptTwice) {
  const fs::path file =
      job("epochs = 4\n", "[cluster]\nreplicas = 2\n[[replica]]\ncount = 3\npace_ms = 30\n");
  auto last = host(file, 2, 3);
  auto second = host(file, 1, 3);
  auto first = host(file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  first->signal(SIGKILL);
  first->wait();
  first = host(file, 0, 3);
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("which ended without a goodbye"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("the servers still had version "), std::string::npos) << ended.errors;
  EXPECT_NE(ended.output.find("3 attempts, 0 commits lost"), std::string::npos) << ended.output;
  EXPECT_EQ(second->wait(60).status, 0);
  EXPECT_EQ(last->wait(60).status, 0);
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 4);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

// A device holds three of four units: what is left are two that have to be a pipeline over their hosts.
TEST_F(Node, APlannedRunIsPlannedAnewWithoutAHost) {
  std::string tables =
      "[cluster]\nhost_patience_s = 5\n[[replica]]\ncount = 3\npace_ms = 30\nmemory_mb = 0.7\n";
  for (int unit = 0; unit < 4; ++unit)
    tables += "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n";
  const fs::path file = job("epochs = 4\nparallel = \"joint\"\nmicro_batch = 4\n", tables);
  auto last = host(file, 2, 3);
  auto second = host(file, 1, 3);
  auto first = host(file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  second->signal(SIGKILL);
  second->wait();
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(last->wait(60).status, 0);
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 4);
  std::string joined;
  for (const control::Fact& fact : RecordedRun::read(run_folder).facts) {
    if (const auto* one = std::get_if<control::ReplicaJoined>(&fact.what)) joined = one->name;
  }
  EXPECT_TRUE(joined == "w0+w2" || joined == "w2+w0") << joined;
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

TEST_F(Node, ARunGoesOnWithFewerHosts) {
  const fs::path file = job("epochs = 2\n", "[[replica]]\ncount = 3\npace_ms = 30\n");
  {
    auto last = host(file, 2, 3);
    auto second = host(file, 1, 3);
    auto first = host(file, 0, 3);
    ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
    for (Program* one : {last.get(), first.get(), second.get()}) {
      one->signal(SIGKILL);
      one->wait();
    }
  }
  auto second = host(file, 1, 2);
  auto first = std::make_unique<Program>(std::vector<std::string>{
      "node", "--resume", only_run(folder_ / "runs").string(), "--rank", "0", "--hosts", "2", "--coordinator",
      fmt::format("127.0.0.1:{}", port_), "--set", "cluster.hosts=2"});
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(second->wait(60).status, 0);
  expect_kept_samples_once(only_run(folder_ / "runs"), 2);
}

// Each host in a network of its own, joined by a bridge: the others are reached over TLS and sealed links
// only. A server dies besides; the run ends in the bytes of one host that nobody disturbed.
class NodesApart : public Node, public ::testing::WithParamInterface<const char*> {};

TEST_P(NodesApart, EndInTheBytesOfOneHost) {
  const auto apart = testing::Namespaces::create(2);
  if (!apart.ok()) GTEST_SKIP() << apart.status().message();
  const fs::path file =
      job(std::string("epochs = 2\nthreads = 1\n") + GetParam(), "[[replica]]\ncount = 2\npace_ms = 30\n");
  const auto second = host_apart(*apart, file, 1, 2);
  const auto first = host_apart(*apart, file, 0, 2);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  kill(children(second->pid(), "server").at(0), SIGKILL);
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("going on from the checkpoint"), std::string::npos) << ended.errors;
  const Ended end = second->wait(60);
  EXPECT_EQ(end.status, 0) << end.errors;
  const fs::path alone = folder_ / "alone";
  const Ended one = run({"train", file.string(), "--set", "runs_dir=" + alone.string(), "--set",
                         "cluster.servers=2", "--set", "network.listen=127.0.0.1:0"});
  ASSERT_EQ(one.status, 0) << one.errors;
  EXPECT_EQ(checkpoint_weights(only_run(folder_ / "runs")), checkpoint_weights(only_run(alone)));
}

INSTANTIATE_TEST_SUITE_P(
    Replicas, NodesApart,
    ::testing::Values("",
                      "parallel = \"static\"\nmicro_batch = 4\n"
                      "pipeline = [{devices = [\"w1\", \"w0\"], cuts = [2], samples = 16}]\n"));

// As an init system would start it again. All of the first host dies with it, and the second one waits.
TEST_F(Node, AFirstHostThatIsKilledTakesItsRunUpAgain) {
  const fs::path file = job("epochs = 3\n", "[[replica]]\ncount = 2\npace_ms = 30\n");
  const auto second = host(file, 1, 2);
  auto first = host(file, 0, 2);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  first->signal(SIGKILL);
  first->wait();
  first = host(file, 0, 2);
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("which ended without a goodbye; --new begins another run"), std::string::npos)
      << ended.errors;
  EXPECT_EQ(second->wait(60).status, 0);
  const fs::path run_folder = only_run(folder_ / "runs");
  EXPECT_FALSE(fs::exists(run_folder / "mark"));
  expect_kept_samples_once(run_folder, 3);
  // What ended with a goodbye is over.
  const auto other = host(file, 1, 2);
  const Ended after = host(file, 0, 2)->wait();
  EXPECT_EQ(after.status, 0) << after.errors;
  EXPECT_EQ(after.errors.find("without a goodbye"), std::string::npos) << after.errors;
}

// The next host has the coordinator and the evaluator from then on, and in the end says what was trained. The
// one after it finds it there, at another address.
TEST_F(Node, AFirstHostThatStaysAwayIsSucceeded) {
  const auto apart = testing::Namespaces::create(3);
  if (!apart.ok()) GTEST_SKIP() << apart.status().message();
  const fs::path file =
      job("epochs = 4\n", "[cluster]\nhost_patience_s = 5\n[[replica]]\ncount = 3\npace_ms = 30\n");
  const auto last = host_apart(*apart, file, 2, 3);
  const auto second = host_apart(*apart, file, 1, 3);
  const auto first = host_apart(*apart, file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  first->signal(SIGKILL);
  first->wait();
  ASSERT_TRUE(eventually([&] { return !children(second->pid(), "evaluator").empty(); }));
  const Ended late = host_apart(*apart, file, 0, 3)->wait(60);
  EXPECT_EQ(late.status, 2);
  EXPECT_NE(late.errors.find(" was given up, and the run goes on without it\n"), std::string::npos)
      << late.errors;
  const Ended ended = second->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("host 0 did not come back; this one leads the run"), std::string::npos)
      << ended.errors;
  EXPECT_NE(ended.output.find("report: "), std::string::npos) << ended.output;
  const Ended end = last->wait(60);
  EXPECT_EQ(end.status, 0) << end.errors;
  EXPECT_NE(end.errors.find("host 1 leads the run, from "), std::string::npos) << end.errors;
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 4);
  EXPECT_FALSE(RecordedRun::read(run_folder).evaluations.empty());
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
  EXPECT_FALSE(fs::exists(run_folder / "mark"));
}

// Whoever comes back finds the run where it is led from by now, and that host takes it up again itself.
TEST_F(Node, HostsComeBackToTheOneThatLeads) {
  const auto apart = testing::Namespaces::create(3);
  if (!apart.ok()) GTEST_SKIP() << apart.status().message();
  const fs::path file =
      job("epochs = 6\n", "[cluster]\nhost_patience_s = 10\n[[replica]]\ncount = 3\npace_ms = 30\n");
  auto last = host_apart(*apart, file, 2, 3), second = host_apart(*apart, file, 1, 3);
  auto first = host_apart(*apart, file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  first->signal(SIGKILL);
  first->wait();
  ASSERT_TRUE(eventually([&] { return !children(second->pid(), "evaluator").empty(); }));
  for (auto* host : {&last, &second}) {
    (*host)->signal(SIGKILL);
    (*host)->wait();
    *host = host_apart(*apart, file, host == &last ? 2 : 1, 3);
  }
  first = host_apart(*apart, file, 0, 3);
  const Ended ended = second->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("which ended without a goodbye"), std::string::npos) << ended.errors;
  for (Program* other : {last.get(), first.get()}) {
    const Ended end = other->wait(60);
    EXPECT_EQ(end.status, 0) << end.errors;
  }
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 6);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

// Down to one host, with no coordinator but its own in the end.
TEST_F(Node, TheLastHostTrainsOnAlone) {
  const fs::path file =
      job("epochs = 4\n", "[cluster]\nhost_patience_s = 5\n[[replica]]\ncount = 3\npace_ms = 30\n");
  const auto last = host(file, 2, 3);
  auto second = host(file, 1, 3);
  auto first = host(file, 0, 3);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  for (Program* one : {first.get(), second.get()}) {
    one->signal(SIGKILL);
    one->wait();
  }
  const Ended ended = last->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path run_folder = only_run(folder_ / "runs");
  expect_kept_samples_once(run_folder, 4);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

// What it had lies on the others, in as many parts as there were hosts with it.
TEST_F(Node, AFirstHostThatStaysAwayTakesNoCommitWithItWhereWeightsAreKeptTwice) {
  const fs::path file = job(
      "epochs = 4\n", "[cluster]\nreplicas = 2\nhost_patience_s = 5\n[[replica]]\ncount = 3\npace_ms = 30\n");
  for (const int hosts : {3, 2}) {
    auto last = hosts == 3 ? host(file, 2, hosts) : nullptr;
    auto second = host(file, 1, hosts);
    auto first = host(file, 0, hosts);
    ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first->signal(SIGKILL);
    first->wait();
    const Ended ended = second->wait();
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_NE(ended.errors.find("the servers still had version "), std::string::npos) << ended.errors;
    EXPECT_NE(ended.output.find("3 attempts, 0 commits lost"), std::string::npos) << ended.output;
    EXPECT_TRUE(last == nullptr || last->wait(60).status == 0);
    const fs::path run_folder = only_run(folder_ / "runs");
    expect_kept_samples_once(run_folder, 4);
    EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
    fs::remove_all(run_folder);
  }
}

TEST_F(Node, ANewRunIsBegunWhereThatIsAsked) {
  const fs::path file = job("epochs = 2\n", "[[replica]]\ncount = 2\npace_ms = 30\n");
  {
    const auto second = host(file, 1, 2);
    const auto first = host(file, 0, 2);
    ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  }
  const fs::path before = only_run(folder_ / "runs");
  const auto second = host(file, 1, 2);
  const Ended ended = host(file, 0, 2, {"--new"})->wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(second->wait(60).status, 0);
  fs::remove_all(before);
  expect_each_sample_once(RecordedRun::read(only_run(folder_ / "runs")), 2);
}

// Another disk lies over the run folder on one host: that is found out before anything is trained.
TEST_F(Node, ARunFolderThatIsNotSharedEndsTheRunAtItsStart) {
  const auto apart = testing::Namespaces::create(2);
  if (!apart.ok()) GTEST_SKIP() << apart.status().message();
  const fs::path file = job("epochs = 1\n", "[[replica]]\ncount = 2\n");
  const std::string runs = (folder_ / "runs").string();
  fs::create_directory(runs);
  const auto start = [&](int rank) {
    return std::make_unique<Program>(
        std::vector<std::string>{"node", file.string(), "--rank", std::to_string(rank), "--hosts", "2",
                                 "--coordinator", fmt::format("{}:{}", apart->address(0), port_)},
        [&apart, &runs, rank] {
          return apart->enter(rank) && (rank == 0 || mount("tmpfs", runs.c_str(), "tmpfs", 0, nullptr) == 0);
        });
  };
  const auto second = start(1);
  const auto first = start(0);
  for (Program* one : {first.get(), second.get()}) {
    const Ended ended = one->wait();
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.errors.find("has to be on a disk that all hosts share"), std::string::npos)
        << ended.errors;
    EXPECT_NE(ended.errors.find("runs_dir"), std::string::npos) << ended.errors;
  }
  for (const auto& run : fs::directory_iterator(runs)) EXPECT_FALSE(has_checkpoint()) << run.path();
}

TEST_F(Node, AStopAnywhereStopsAllCleanly) {
  const fs::path file = job("epochs = 30\n", "[[replica]]\ncount = 2\npace_ms = 40\n");
  auto second = host(file, 1, 2);
  auto first = host(file, 0, 2);
  ASSERT_TRUE(eventually([&] { return has_checkpoint(); }));
  second->signal(SIGTERM);
  EXPECT_EQ(second->wait(60).status, 128 + SIGTERM);
  const Ended ended = first->wait(60);
  EXPECT_EQ(ended.status, 0) << ended.errors;
}

TEST_F(Node, WhatCannotWorkIsSaidAtOnce) {
  const fs::path file = job("", "[[replica]]\ncount = 3\n");
  const Ended few = host(file, 0, 4)->wait();
  EXPECT_EQ(few.status, 2);
  EXPECT_NE(few.errors.find("cluster.hosts: host 3 has no replica"), std::string::npos) << few.errors;
  const Ended other = host(file, 0, 2, {"--set", "cluster.hosts=3"})->wait();
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.errors.find("the job has 3 hosts, and `paceline node` runs on 2"), std::string::npos)
      << other.errors;
  const Ended rank = host(file, 3, 3)->wait();
  EXPECT_NE(rank.errors.find("ranks begin at 0"), std::string::npos) << rank.errors;
  write_text(folder_ / "plain.toml", "[[replica]]\ncount = 2\n");
  const Ended plain = host(folder_ / "plain.toml", 1, 2)->wait();
  EXPECT_EQ(plain.status, 2);
  EXPECT_NE(plain.errors.find("paceline certs"), std::string::npos) << plain.errors;
}

}  // namespace
}  // namespace paceline::tests

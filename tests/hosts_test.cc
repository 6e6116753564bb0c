// Jobs over several hosts, each played by processes of its own that share no memory with the others': their
// servers move gradients and weights between them.
#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

#include "paceline/decisions/policy/testing/every_policy.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> train_on(const fs::path& job, int hosts, std::vector<std::string> sets) {
  std::vector<std::string> arguments{"train", job.string()};
  sets.push_back(fmt::format("cluster.hosts={}", hosts));
  for (std::string& set : sets) arguments.insert(arguments.end(), {"--set", std::move(set)});
  return arguments;
}

// The run folder of a job that goes through.
fs::path train(const TempFolder& folder, int hosts, const std::vector<std::string>& sets) {
  const Ended ended = run(train_on(small_job(folder.path(), "epochs = 1\nthreads = 1\n"), hosts, sets));
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return only_run(folder / "runs");
}

TEST(Hosts, OneReplicaEachTrainsToTheBytesOfOneHost) {
  using Sets = std::vector<std::string>;
  for (const auto& [hosts, links] :
       {std::pair(3, Sets{}), std::pair(3, Sets{"cluster.seal=false"}),
        std::pair(2, Sets{"cluster.seal=false", "cluster.fabric=ucx"}),
        std::pair(3, Sets{"cluster.placement=central", "cluster.reduction=servers"})}) {
    const TempFolder one, several;
    const std::string replicas = fmt::format("device=[{{count={}}}]", hosts);
    const auto on_one = checkpoint_weights(train(one, 1, {replicas, "cluster.servers=3"}));
    Sets sets = links;
    sets.push_back(replicas);
    const auto on_several = checkpoint_weights(train(several, hosts, sets));
    ASSERT_FALSE(on_one.empty());
    EXPECT_EQ(on_several, on_one);
  }
}

class HostsUnder : public testing::TestWithParam<std::string> {};

// Hosts of one and of three replicas, of unlike speed.
TEST_P(HostsUnder, EachPolicyTrainsEverySampleOnce) {
  const TempFolder folder;
  const fs::path run_folder = train(folder, 2,
                                    {"device=[{count=3, pace_ms=15, host=1}, {pace_ms=40, host=0}]",
                                     "sync.policy=" + GetParam(), "evaluate.every_epochs=0.2"});
  expect_kept_samples_once(run_folder, 1);
  const Ended replayed = run({"replay", run_folder.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
  EXPECT_GE(RecordedRun::read(run_folder).evaluations.size(), 2u);
}

// `first`: the host of the fastest device. Host 0 keeps the weights, and need not have a device. If no group
// reduces its gradients, each goes to host 0 by itself, and some go early.
void train_in_one_place(const std::string& policy, int first) {
  const bool groups = policy == "cgp" || policy.starts_with("groups") || policy.starts_with("local");
  const TempFolder folder;
  const fs::path run_folder = train(
      folder, 3,
      {fmt::format("device=[{{pace_ms=15, host={}}}, {{pace_ms=20, host=1}}, {{pace_ms=40, host=2}}]", first),
       "cluster.placement=central", std::string("cluster.reduction=") + (groups ? "group" : "servers"),
       "sync.policy=" + policy, "evaluate.every_epochs=0.2"});
  expect_kept_samples_once(run_folder, 1);
  const Ended replayed = run({"replay", run_folder.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
  EXPECT_GE(RecordedRun::read(run_folder).evaluations.size(), 2u);
}

TEST_P(HostsUnder, TrainsEverySampleOnceWithTheWeightsOnAHostThatDoesNotTrain) {
  train_in_one_place(GetParam(), 1);
}

TEST(Hosts, OneThatKeepsAllWeightsMayTrainToo) { train_in_one_place("cgp", 0); }

INSTANTIATE_TEST_SUITE_P(Policies, HostsUnder,
                         testing::ValuesIn(policy::testing::with_every_policy(
                             {"ssp:3", "dssp:3-15", "elastic-bsp:5", "local-sgd:4"})),
                         policy::testing::policy_test_name);

// The same version is written and done with before it is measured.
TEST(Hosts, ASlowEvaluatorFindsWhatACheckpointHadKeptToo) {
  const TempFolder folder;
  Program train(train_on(
      small_job(folder.path(), "epochs = 4\nthreads = 1\n"), 2,
      {"device=[{count=2, pace_ms=10}]", "evaluate.every_epochs=0.5", "checkpoint.every_epochs=0.5"}));
  ASSERT_TRUE(train.until([&] { return !children(train.pid(), "evaluator").empty(); }));
  const pid_t evaluator = children(train.pid(), "evaluator").at(0);
  kill(evaluator, SIGSTOP);
  EXPECT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  kill(evaluator, SIGCONT);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_GE(RecordedRun::read(only_run(folder / "runs")).evaluations.size(), 2u);
}

TEST(Hosts, ARunGoesOnFromItsCheckpoint) {
  for (const auto& [placement, devices] :
       {std::pair("beside", "{count=2}"), std::pair("central", "{count=2}"),
        std::pair("central", "{host=1}")}) {
    const TempFolder whole, half;
    const std::vector<std::string> sets = {fmt::format("device=[{}]", devices), "model.width=32",
                                           fmt::format("cluster.placement={}", placement)};
    std::vector<std::string> longer = sets;
    longer.push_back("epochs=2");
    const auto expected = checkpoint_weights(train(whole, 2, longer));
    const fs::path run_folder = train(half, 2, sets);
    const Ended resumed = run({"train", "--resume", run_folder.string(), "--set", "epochs=2"});
    EXPECT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_EQ(checkpoint_weights(run_folder), expected);
  }
}

// Servers with links of different kinds could not talk to each other.
TEST(Hosts, AServerWithOtherLinksThanTheJobsIsRefused) {
  for (const auto& [links, other_links, why] :
       {std::tuple("true", "tcp", "cluster.seal = true, and this server was started with --fabric tcp"),
        std::tuple("false", "sealed",
                   "cluster.seal = false, and this server was started with --fabric sealed"),
        std::tuple("false", "ucx", "this host's links go over ucx and those of another one over tcp")}) {
    const TempFolder folder;
    Program train(train_on(small_job(folder.path(), "epochs = 200\nthreads = 1\n"), 2,
                           {"device=[{count=2, pace_ms=20}]", std::string("cluster.seal=") + links}));
    ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
    std::vector<std::string> server{"server", "--shard", "1", "--exchange", "127.0.0.1"};
    for (std::string& word : reach_of(children(train.pid(), "w0").at(0))) server.push_back(std::move(word));
    server.insert(server.end(), {"--fabric", other_links});
    const Ended other = run(server);
    EXPECT_EQ(other.status, 2);
    EXPECT_NE(other.errors.find(why), std::string::npos) << other.errors;
    expect_goes_on_until_stopped(train, folder / "runs");
  }
}

TEST(Hosts, WhatOnlyWorksOnOneHostIsRefused) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "");
  const auto refused = [&](int hosts, const std::vector<std::string>& sets) {
    const Ended ended = run(train_on(job, hosts, sets));
    EXPECT_EQ(ended.status, 2);
    return ended.errors;
  };
  EXPECT_NE(refused(2, {}).find("cluster.hosts=2: host 1 has no device"), std::string::npos);
  EXPECT_NE(refused(2, {"device=[{count=2}]", "cluster.servers=3"}).find("every host has one server"),
            std::string::npos);
  EXPECT_NE(refused(2, {"device=[{count=2}]", "cluster.reduction=group"}).find("only with placement"),
            std::string::npos);
  EXPECT_NE(refused(2, {"device=[{count=2}]", "cluster.placement=central", "cluster.copies=2",
                        "cluster.reduction=group"})
                .find("only with placement"),
            std::string::npos);
  EXPECT_NE(refused(2, {"device=[{count=2}]", "cluster.colocated=true"}).find("write placement"),
            std::string::npos);
  EXPECT_NE(refused(2, {"device=[{host=1}, {host=2}]"}).find("host 0 has no device"), std::string::npos);
  EXPECT_NE(refused(2, {"device=[{host=0}, {host=1}, {host=2}]"}).find("w2 is on host 2"), std::string::npos);
}

}  // namespace
}  // namespace paceline::tests

// The Controller, one promise at a time. Whole random runs are in controller_random_test.cc.
#include "paceline/decisions/control/controller.h"

#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/control/testing/little_cluster.h"

namespace paceline::control {
namespace {

using control::testing::LittleCluster;
using control::testing::SampleLog;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ControllerConfig config_of(std::int64_t dataset_size, std::int64_t total, std::int64_t start_replicas) {
  ControllerConfig config;
  config.dataset_size = dataset_size;
  config.total_samples = total;
  config.start_replicas = start_replicas;
  return config;
}

Controller controller_of(const ControllerConfig& config, const std::string& spec) {
  return Controller(config, policy::make_policy(policy::parse_policy(spec).value()));
}

Fact joined(int id, const std::string& name, std::int64_t batch) {
  return {Time{}, ReplicaJoined{ReplicaId(id), name, batch}};
}
Fact left(int id) { return {Time{}, ReplicaLeft{ReplicaId(id), ""}}; }
Fact ready(int id, int clock, int base) {
  return {Time{}, ReplicaReady{ReplicaId(id), Clock(clock), Version(base), Duration(1), 0}};
}

// Orders as text, to compare.
std::string text(const Order& order) {
  struct Writer {
    std::string operator()(const CommitRecord& c) const {
      std::string members;
      for (const CommitMember& m : c.members) {
        members +=
            fmt::format(" {}@{}[{}:{}-{}]", m.replica, m.clock, m.lease.epoch, m.lease.begin, m.lease.end);
      }
      return fmt::format("commit {}{}", c.version, members);
    }
    std::string operator()(const Release& r) const {
      return fmt::format("release {}@{} on {} [{}:{}-{}]", r.replica, r.clock, r.version, r.lease.epoch,
                         r.lease.begin, r.lease.end);
    }
    std::string operator()(const Discard& d) const {
      return fmt::format("discard {}@{}", d.replica, d.clock);
    }
    std::string operator()(const Park& p) const { return fmt::format("park {}", p.replica); }
    std::string operator()(const WakeAt&) const { return "wake"; }
    std::string operator()(const Finish& f) const { return "finish: " + f.why; }
    std::string operator()(const SearchPlan&) const { return "search"; }
    std::string operator()(const PlanAdopted& p) const { return "plan: " + p.why; }
    std::string operator()(const NoPlan& n) const { return "no plan: " + n.why; }
    std::string operator()(const BatchDone&) const { return "batch"; }
  };
  return std::visit(Writer{}, order);
}

// The orders a fact gives; the fact must be taken.
std::vector<std::string> take(Controller& controller, const Fact& fact) {
  std::vector<Order> orders;
  const absl::Status status = controller.handle(fact, orders);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> lines;
  for (const Order& order : orders) lines.push_back(text(order));
  return lines;
}

std::string text(const ControllerState& state) {
  std::string all = fmt::format("version {} next {}", state.version, state.ledger.next);
  for (const auto& [begin, end] : state.ledger.open) all += fmt::format(" open {}-{}", begin, end);
  for (const auto& [name, clock] : state.clocks) all += fmt::format(" {}@{}", name, clock);
  return all;
}

// ---- Starting, parking, ending ----

TEST(Controller, NobodyStartsBeforeAllAreHere) {
  Controller controller = controller_of(config_of(10, 10, 2), "asp");
  EXPECT_THAT(take(controller, joined(0, "w0", 2)), IsEmpty());
  EXPECT_FALSE(controller.started());
  EXPECT_THAT(take(controller, joined(1, "w1", 3)),
              ElementsAre("release 0@1 on 0 [0:0-2]", "release 1@1 on 0 [0:2-5]"));
  EXPECT_TRUE(controller.started());
}

TEST(Controller, OneLostBeforeTheStartIsNotWaitedFor) {
  Controller controller = controller_of(config_of(10, 10, 3), "bsp");
  take(controller, joined(0, "w0", 2));
  take(controller, joined(1, "w1", 2));
  EXPECT_THAT(take(controller, left(1)), IsEmpty());
  EXPECT_THAT(take(controller, joined(2, "w2", 2)),
              ElementsAre("release 0@1 on 0 [0:0-2]", "release 2@1 on 0 [0:2-4]"));
}

TEST(Controller, AtTheEndOfTheQueueReplicasAreParkedAndThenTheRunEnds) {
  Controller controller = controller_of(config_of(4, 4, 2), "asp");
  take(controller, joined(0, "w0", 2));
  take(controller, joined(1, "w1", 2));
  EXPECT_THAT(take(controller, ready(0, 1, 0)), ElementsAre("commit 1 0@1[0:0-2]", "park 0"));
  EXPECT_THAT(take(controller, ready(1, 1, 0)),
              ElementsAre("commit 2 1@1[0:2-4]", "park 1", "finish: every sample is committed"));
  EXPECT_TRUE(controller.finished());
  EXPECT_THAT(take(controller, left(0)), IsEmpty()) << "nothing follows";
}

TEST(Controller, WhatTheLastOneLeavesBehindIsTrainedByAParkedOne) {
  for (const char* spec : {"bsp", "asp", "ssp:0", "ssp:3", "dssp:3-15", "dssp:3-15:printed", "elastic-bsp:5",
                           "backup:1", "groups:1+1:asp"}) {
    Controller controller = controller_of(config_of(5, 5, 2), spec);
    take(controller, joined(0, "w0", 1));
    take(controller, joined(1, "w1", 4));
    take(controller, left(0));
    take(controller, joined(2, "w2", 2));  // takes what 0 left behind, then has nothing to do
    const bool alone = std::string(spec) != "bsp";
    const std::vector<std::string> second = take(controller, ready(2, 1, 0));
    if (!alone) {
      EXPECT_THAT(second, IsEmpty());  // waits for the round
      EXPECT_THAT(take(controller, left(1)), ElementsAre("commit 1 2@1[0:0-1]", "release 2@2 on 1 [0:1-3]"))
          << spec;
    } else {
      EXPECT_EQ(second.front(), "commit 1 2@1[0:0-1]") << spec;
      const std::vector<std::string> back = take(controller, left(1));
      EXPECT_EQ(back.back(), "release 2@2 on 1 [0:1-3]") << spec;
    }
    take(controller, ready(2, 2, 1));
    EXPECT_EQ(take(controller, ready(2, 3, 2)).back(), "finish: every sample is committed") << spec;
  }
}

TEST(Controller, AllWhoAreUnparkedTogetherAreLevel) {
  LittleCluster cluster(config_of(13, 13, 4), "ssp:1", 0);
  const ReplicaId early = cluster.join("early", 1, std::chrono::milliseconds(1500));
  const ReplicaId late = cluster.join("late", 2, std::chrono::milliseconds(1000));
  const ReplicaId other = cluster.join("other", 2, std::chrono::milliseconds(1100));
  const ReplicaId stuck = cluster.join("stuck", 4, std::chrono::seconds(50));
  // After 2.2 s: "early" is parked after its first iteration; the next two wait for the one that is stuck.
  for (int i = 0; i < 5; ++i) cluster.step();
  ASSERT_TRUE(cluster.parked(early) && !cluster.parked(late) && !cluster.computing(late) &&
              !cluster.computing(other));
  cluster.leave(stuck);
  cluster.step();  // on what it left they do one more, and the first of them is parked after its third
  ASSERT_TRUE(cluster.parked(late) && cluster.computing(other));
  // No replica is active now. The samples "other" leaves are enough for both that are parked, 2 iterations
  // apart.
  cluster.leave(other);
  ASSERT_TRUE(cluster.computing(early) && cluster.computing(late));
  cluster.run_until_finished();
  EXPECT_TRUE(cluster.finished());
  EXPECT_EQ(cluster.broken(), "");
  EXPECT_EQ(cluster.observer().largest_gap(), 2);
}

TEST(Controller, WhoIsUnparkedGoesOnAfterItsOwnLastIteration) {
  Controller controller = controller_of(config_of(7, 7, 3), "asp");
  take(controller, joined(0, "quick", 1));
  take(controller, joined(1, "slow", 2));
  take(controller, joined(2, "gone", 2));
  take(controller, ready(0, 1, 0));
  take(controller, ready(0, 2, 1));
  EXPECT_THAT(take(controller, ready(0, 3, 2)), ElementsAre("commit 3 0@3[0:6-7]", "park 0"));
  EXPECT_THAT(take(controller, left(2)), ElementsAre("release 0@4 on 3 [0:3-4]")) << "the slow one is at 0";
}

TEST(Controller, AStopEndsTheRunAtOnce) {
  Controller controller = controller_of(config_of(10, 10, 1), "asp");
  take(controller, joined(0, "w0", 2));
  EXPECT_THAT(take(controller, {Time{}, StopAsked{"the user said so"}}),
              ElementsAre("finish: the user said so"));
  EXPECT_THAT(take(controller, ready(0, 1, 0)), IsEmpty());
  EXPECT_EQ(controller.committed_samples(), 0);
}

// ---- What a commit says ----

std::vector<CommitRecord> commits_of(const ControllerConfig& config, const std::string& spec,
                                     const std::vector<Fact>& facts) {
  Controller controller = controller_of(config, spec);
  std::vector<Order> orders;
  for (const Fact& fact : facts) EXPECT_TRUE(controller.handle(fact, orders).ok());
  std::vector<CommitRecord> commits;
  for (const Order& order : orders) {
    if (const auto* commit = std::get_if<CommitRecord>(&order)) commits.push_back(*commit);
  }
  return commits;
}

TEST(Controller, MembersWeighAsMuchAsTheirSamples) {
  const auto commits = commits_of(config_of(100, 100, 2), "bsp",
                                  {joined(0, "w0", 30), joined(1, "w1", 10), ready(1, 1, 0), ready(0, 1, 0)});
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].samples, 40);
  EXPECT_EQ(commits[0].nominal, 40);
  EXPECT_DOUBLE_EQ(commits[0].fraction, 1.0);
  EXPECT_DOUBLE_EQ(commits[0].members[0].weight, 0.75);
  EXPECT_DOUBLE_EQ(commits[0].members[0].share, 0.75);
  EXPECT_DOUBLE_EQ(commits[0].members[1].weight, 0.25);
}

Fact ready_with(int id, int clock, int base, double weight) {
  Fact fact = ready(id, clock, base);
  std::get<ReplicaReady>(fact.what).weight = weight;
  return fact;
}

TEST(Controller, MembersWeighWhatTheProgramSays) {
  const auto commits = commits_of(
      config_of(200, 200, 2), "bsp",
      {joined(0, "w0", 30), joined(1, "w1", 10), ready_with(1, 1, 0, 600), ready_with(0, 1, 0, 200)});
  EXPECT_DOUBLE_EQ(commits.at(0).members[0].weight, 0.25);
  EXPECT_DOUBLE_EQ(commits[0].members[0].share, 0.25);
  EXPECT_DOUBLE_EQ(commits[0].members[1].weight, 0.75);
  EXPECT_DOUBLE_EQ(commits[0].fraction, 1.0);
}

// A skipped member, for example, has 20 tokens a sample like the other.
TEST(Controller, AMemberWithoutAWeightCountsLikeTheOthersForItsSamples) {
  const auto commits =
      commits_of(config_of(200, 200, 2), "bsp",
                 {joined(0, "w0", 30), joined(1, "w1", 10), ready(1, 1, 0), ready_with(0, 1, 0, 600)});
  EXPECT_DOUBLE_EQ(commits.at(0).members[0].weight, 0.75);
  EXPECT_DOUBLE_EQ(commits[0].members[1].weight, 0.25);
}

TEST(Controller, WeightsThatAreAllZeroSayNothing) {
  const auto commits =
      commits_of(config_of(200, 200, 2), "bsp",
                 {joined(0, "w0", 30), joined(1, "w1", 10), ready_with(1, 1, 0, 0), ready_with(0, 1, 0, 0)});
  EXPECT_DOUBLE_EQ(commits.at(0).members[0].weight, 0.75);
}

TEST(Controller, RefusesAWeightThatIsNone) {
  using Limits = std::numeric_limits<double>;
  // A sum of larger ones may be infinite, and a commit of nothing.
  for (const double weight : {-1.0, 1.1 * kMostWeight, Limits::infinity(), Limits::quiet_NaN()}) {
    Controller controller = controller_of(config_of(200, 200, 1), "bsp");
    std::vector<Order> orders;
    ASSERT_TRUE(controller.handle(joined(0, "w0", 30), orders).ok());
    EXPECT_FALSE(controller.handle(ready_with(0, 1, 0, weight), orders).ok());
  }
}

// The third round has a rest of four samples for one replica, and none for the others.
TEST(Controller, ABulkSynchronousRoundOfAllThatThereIsIsAWholeUpdate) {
  std::vector<Fact> facts = {joined(0, "w0", 10), joined(1, "w1", 10), joined(2, "w2", 10)};
  for (int round = 1; round <= 2; ++round) {
    for (int id = 0; id < 3; ++id) facts.push_back(ready(id, round, round - 1));
  }
  facts.push_back(ready(0, 3, 2));
  const ControllerConfig config = config_of(64, 64, 3);
  for (const char* const policy : {"bsp", "backup:0", "groups:1:bsp"}) {
    const auto commits = commits_of(config, policy, facts);
    ASSERT_EQ(commits.size(), 3u) << policy;
    EXPECT_EQ(commits[2].samples, 4);
    EXPECT_EQ(commits[2].nominal, 30);
    for (const CommitRecord& commit : commits) EXPECT_EQ(commit.fraction, 1.0) << policy;
  }
  EXPECT_DOUBLE_EQ(commits_of(config, "backup:1", facts).at(0).fraction, 2.0 / 3);
}

TEST(Controller, ABatchOfMoreThanTheDataCountsAsAllOfItInABulk) {
  const auto commits = commits_of(config_of(100, 500, 3), "asp",
                                  {joined(0, "w0", 1'000'000), joined(1, "w1", 1'000'000),
                                   joined(2, "w2", 50), ready(0, 1, 0), left(1), ready(2, 1, 0)});
  ASSERT_EQ(commits.size(), 2u);
  EXPECT_EQ(commits[0].samples, 100);
  EXPECT_EQ(commits[0].nominal, 250);
  EXPECT_DOUBLE_EQ(commits[0].fraction, 0.4);
  EXPECT_EQ(commits[1].nominal, 150) << "its part leaves with a replica";
}

TEST(Controller, ALoneReplicasLastBatchIsAWholeUpdateUnderAnyPolicy) {
  for (const char* const policy : {"bsp", "asp", "ssp:2", "cgp"}) {
    const auto commits =
        commits_of(config_of(14, 14, 1), policy, {joined(0, "w0", 10), ready(0, 1, 0), ready(0, 2, 1)});
    ASSERT_EQ(commits.size(), 2u) << policy;
    EXPECT_EQ(commits[1].samples, 4);
    EXPECT_EQ(commits[1].fraction, 1.0) << policy;
  }
}

TEST(Controller, ALoneCommitIsAFractionOfTheBulk) {
  const std::vector<Fact> facts = {joined(0, "w0", 30), joined(1, "w1", 10), ready(1, 1, 0)};
  ControllerConfig config = config_of(100, 100, 2);
  EXPECT_DOUBLE_EQ(commits_of(config, "asp", facts).at(0).fraction, 0.25);
  EXPECT_DOUBLE_EQ(commits_of(config, "asp", facts).at(0).members[0].share, 1.0);
  config.scale = CommitScale::kUpdate;
  EXPECT_DOUBLE_EQ(commits_of(config, "asp", facts).at(0).fraction, 1.0);
}

TEST(Controller, StaleGradientsAreDampedAndTheirStatisticsAreNot) {
  ControllerConfig config = config_of(100, 100, 2);
  config.staleness_damping = 0.5;
  const auto commits =
      commits_of(config, "asp",
                 {joined(0, "w0", 5), joined(1, "w1", 5), ready(0, 1, 0), ready(0, 2, 1), ready(1, 1, 0)});
  ASSERT_EQ(commits.size(), 3u);
  EXPECT_DOUBLE_EQ(commits[0].members[0].weight, 1.0);
  EXPECT_DOUBLE_EQ(commits[1].members[0].weight, 1.0) << "on version 1, committed as 2: not stale";
  EXPECT_DOUBLE_EQ(commits[2].members[0].weight, 0.5) << "on version 0, committed as 3: 1 / (1 + 0.5 · 2)";
  EXPECT_DOUBLE_EQ(commits[2].members[0].share, 1.0);
}

TEST(Controller, TheRateFollowsTheSamplesCommittedByAll) {
  ControllerConfig config = config_of(100, 100, 1);
  config.schedule = {.shape = LrShape::kStep, .base = 1.0, .warmup = 0, .milestones = {8}, .gamma = 0.5};
  const auto commits =
      commits_of(config, "asp", {joined(0, "w0", 4), ready(0, 1, 0), ready(0, 2, 1), ready(0, 3, 2)});
  EXPECT_DOUBLE_EQ(commits.at(0).learning_rate, 1.0);
  EXPECT_DOUBLE_EQ(commits.at(1).learning_rate, 1.0) << "4 samples before it";
  EXPECT_DOUBLE_EQ(commits.at(2).learning_rate, 0.5) << "8 samples before it";
}

TEST(Controller, EvaluatesAndCheckpointsWhereTheCountIsReached) {
  ControllerConfig config = config_of(24, 24, 1);
  config.evaluate_every = 10;
  config.checkpoint_every = 8;
  std::vector<Fact> facts = {joined(0, "w0", 4)};
  for (int i = 1; i <= 6; ++i) facts.push_back(ready(0, i, i - 1));
  std::vector<std::int64_t> evaluated;
  std::vector<std::int64_t> kept;
  for (const CommitRecord& commit : commits_of(config, "asp", facts)) {
    if (commit.keep_for_evaluation) evaluated.push_back(commit.committed_after());
    if (commit.checkpoint) kept.push_back(commit.committed_after());
  }
  EXPECT_THAT(evaluated, ElementsAre(12, 20, 24));  // past 10, at 20, and the end
  EXPECT_THAT(kept, ElementsAre(8, 16, 24));
}

TEST(Controller, EvaluatesAndCheckpointsAtTheEndOnlyUnlessToldOtherwise) {
  const auto commits =
      commits_of(config_of(8, 8, 1), "asp", {joined(0, "w0", 4), ready(0, 1, 0), ready(0, 2, 1)});
  EXPECT_FALSE(commits.at(0).keep_for_evaluation || commits.at(0).checkpoint);
  EXPECT_TRUE(commits.at(1).keep_for_evaluation && commits.at(1).checkpoint);
}

TEST(Controller, ACheckpointIsOfItsCommitAndOfNothingLater) {
  ControllerConfig config = config_of(100, 100, 2);
  config.checkpoint_every = 1;
  const auto commits =
      commits_of(config, "asp",
                 {joined(0, "w0", 4), joined(1, "w1", 4), ready(0, 1, 0), ready(0, 2, 1), ready(1, 1, 0)});
  EXPECT_EQ(text(*commits.at(0).checkpoint), "version 1 next 8 open 4-8 w0@1 w1@0");
  EXPECT_EQ(text(*commits.at(1).checkpoint), "version 2 next 12 open 4-8 w0@2 w1@0");
  EXPECT_EQ(text(*commits.at(2).checkpoint), "version 3 next 16 open 12-16 w0@2 w1@1");
}

// ---- What a release says to those who look ahead ----

std::vector<Release> releases_of(const ControllerConfig& config, const std::string& spec,
                                 const std::vector<Fact>& facts) {
  Controller controller = controller_of(config, spec);
  std::vector<Order> orders;
  for (const Fact& fact : facts) EXPECT_TRUE(controller.handle(fact, orders).ok());
  std::vector<Release> releases;
  for (const Order& order : orders) {
    if (const auto* release = std::get_if<Release>(&order)) releases.push_back(*release);
  }
  return releases;
}

ControllerConfig looking_ahead(std::int64_t start_replicas) {
  ControllerConfig config = config_of(100, 100, start_replicas);
  config.look_ahead = true;
  return config;
}

// Two replicas, 0 twice as fast as 1; then a third one.
std::vector<Fact> asynchronous_facts() {
  return {joined(0, "w0", 5), joined(1, "w1", 5), ready(0, 1, 0), ready(0, 2, 1),
          ready(1, 1, 0),     ready(0, 3, 2),     ready(1, 2, 3), joined(2, "w2", 10)};
}

TEST(Controller, LearnsHowLateEachReplicaIs) {
  const auto releases = releases_of(looking_ahead(2), "asp", asynchronous_facts());
  ASSERT_EQ(releases.size(), 8u);
  std::vector<std::pair<int, double>> staleness;
  for (const Release& one : releases) staleness.emplace_back(one.replica.value(), one.staleness);
  using ::testing::DoubleEq;
  using ::testing::Pair;
  EXPECT_THAT(staleness, ElementsAre(Pair(0, 0.0), Pair(1, 0.0),  // nothing is known
                                     Pair(0, 0.0), Pair(0, 0.0),  // computed on the newest version
                                     Pair(1, 2.0),                // its first one, on version 0, was commit 3
                                     Pair(0, DoubleEq(0.2)),      // a fifth of 1, which was its third
                                     Pair(1, DoubleEq(1.8)),      // 2, then 1
                                     Pair(2, DoubleEq(0.616))));  // mean over all: 0, 0, 2, 1, 1
}

// One replica's commits are three quarters of the bulk and the other's a quarter: each is late by the
// other's.
TEST(Controller, LearnsHowFarTheCommitsMoveThatAReplicaMisses) {
  const std::vector<Fact> facts{joined(0, "w0", 15), joined(1, "w1", 5), ready(0, 1, 0),
                                ready(1, 1, 0),      ready(0, 2, 1),     ready(1, 2, 3)};
  const auto releases = releases_of(looking_ahead(2), "asp", facts);
  ASSERT_EQ(releases.size(), 6u);
  EXPECT_EQ(releases[1].fraction, 1.0) << "nothing is known";
  EXPECT_EQ(releases[2].fraction, 1.0) << "it was not late";
  EXPECT_DOUBLE_EQ(releases[3].fraction, 0.75);
  EXPECT_DOUBLE_EQ(releases[4].fraction, 0.25);
  EXPECT_DOUBLE_EQ(releases[5].fraction, 0.75);
  EXPECT_DOUBLE_EQ(releases[5].staleness, 0.8)
      << "it pulled the newest version, not the one it was let go on";
  ControllerConfig whole = looking_ahead(2);
  whole.scale = CommitScale::kUpdate;
  EXPECT_EQ(releases_of(whole, "asp", facts).at(3).fraction, 1.0);
}

// A replica that is far behind makes the Controller remember how far the weights have moved since.
TEST(Controller, KnowsTheDelayOfAGradientThatIsThousandsOfCommitsOld) {
  ControllerConfig config = config_of(100'000, 100'000, 2);
  config.look_ahead = true;
  std::vector<Fact> facts{joined(0, "w0", 3), joined(1, "w1", 1)};
  constexpr int kOld = 5000;
  for (int i = 1; i <= kOld; ++i) facts.push_back(ready(0, i, i - 1));
  facts.push_back(ready(1, 1, 0));
  const Release last = releases_of(config, "asp", facts).back();
  EXPECT_EQ(last.staleness, kOld);
  EXPECT_DOUBLE_EQ(last.fraction, 0.75);
}

// Replica 1 is late by 500 commits, once.
TEST(Controller, LooksNoFartherAheadAfterAStall) {
  ControllerConfig config = config_of(100'000, 100'000, 2);
  config.look_ahead = true;
  std::vector<Fact> facts{joined(0, "w0", 1), joined(1, "w1", 1)};
  int clocks[] = {0, 0}, version = 0;
  const auto commits = [&](int replica, int base) {
    facts.push_back(ready(replica, ++clocks[replica], base));
    ++version;
  };
  int base = 0;
  for (const int between : {1, 1, 500, 1}) {
    for (int i = 0; i < between; ++i) commits(0, version);
    commits(1, std::exchange(base, version + 1));
  }
  facts.push_back(joined(2, "w2", 1));
  const auto releases = releases_of(config, "asp", facts);
  EXPECT_EQ(releases[releases.size() - 2].staleness, 1);
  EXPECT_LT(releases.back().staleness, 1) << "the mean over all, of which most are never late";
}

TEST(Controller, TellsTheRateOfTheSchedule) {
  ControllerConfig config = looking_ahead(1);
  config.schedule = {.shape = LrShape::kStep, .base = 1.0, .warmup = 0, .milestones = {8}, .gamma = 0.5};
  const auto releases =
      releases_of(config, "asp", {joined(0, "w0", 4), ready(0, 1, 0), ready(0, 2, 1), ready(0, 3, 2)});
  EXPECT_DOUBLE_EQ(releases.at(1).learning_rate, 1.0);
  EXPECT_DOUBLE_EQ(releases.at(2).learning_rate, 0.5) << "8 samples are committed";
}

TEST(Controller, NobodyLooksAheadInABulkSynchronousRun) {
  for (const Release& one :
       releases_of(looking_ahead(2), "bsp",
                   {joined(0, "w0", 5), joined(1, "w1", 5), ready(1, 1, 0), ready(0, 1, 0), ready(0, 2, 1)}))
    EXPECT_EQ(one.staleness, 0.0);
}

TEST(Controller, SaysNothingOfItWhereNobodyLooksAhead) {
  ControllerConfig config = looking_ahead(2);
  config.look_ahead = false;
  for (const Release& one : releases_of(config, "asp", asynchronous_facts())) {
    EXPECT_TRUE(one.plain());
    EXPECT_EQ(one.learning_rate, 0.0);
  }
}

// Who comes again is another replica: what the one before it was like is forgotten.
TEST(Controller, LearnsAnewOfAReplicaThatComesAgain) {
  auto facts = asynchronous_facts();
  facts.push_back(left(1));
  facts.push_back(joined(3, "w1", 5));
  EXPECT_DOUBLE_EQ(releases_of(looking_ahead(2), "asp", facts).back().staleness, 0.616);
}

// ---- Replicas that step by themselves ----

TEST(Controller, LeasesWhatALocalReplicaStepsThroughInARound) {
  const std::vector<Fact> facts = {joined(0, "w0", 3), joined(1, "w1", 2), ready(0, 1, 0), ready(1, 1, 0)};
  ControllerConfig config = config_of(30, 30, 2);
  config.schedule.base = 0.25;
  const auto releases = releases_of(config, "local-sgd:4", facts);
  ASSERT_EQ(releases.size(), 3u) << "nothing is left for the other one";
  EXPECT_EQ(releases[0].lease, (Lease{0, 0, 12}));
  EXPECT_EQ(releases[1].lease, (Lease{0, 12, 20}));
  EXPECT_EQ(releases[2].lease, (Lease{0, 20, 30})) << "what is left";
  EXPECT_EQ(releases[0].steps, 4);
  EXPECT_EQ(releases[1].steps, 4);
  EXPECT_EQ(releases[2].steps, 4) << "ten samples in steps of at most three";
  EXPECT_EQ(releases[0].learning_rate, 0.25);
}

TEST(Controller, CutsALeaseIntoFewerLocalStepsIfTheyWouldBeTooSmall) {
  struct Case {
    std::int64_t batch, least, samples, steps;
  };
  for (const Case& one : {Case{32, 32, 232, 7},
                          {32, 31, 232, 7},
                          {32, 29, 232, 8},
                          {2, 2, 7, 3},
                          {2, 1, 7, 4},
                          {32, 32, 20, 1}}) {
    ControllerConfig config = config_of(one.samples, one.samples, 1);
    config.least_batch = one.least;
    const auto releases = releases_of(config, "local-sgd:8", {joined(0, "w0", one.batch)});
    ASSERT_EQ(releases.size(), 1u);
    EXPECT_EQ(releases[0].lease.size(), one.samples);
    EXPECT_EQ(releases[0].steps, one.steps) << one.samples << " samples, at least " << one.least;
  }
}

TEST(Controller, LocalStepsThatWereTooSmallBecomeLarger) {
  Controller controller = controller_of(config_of(1000, 1000, 1), "local-sgd:8");
  take(controller, joined(0, "w0", 32));
  for (int round = 1; round <= 3; ++round) take(controller, ready(0, round, round - 1));
  EXPECT_TRUE(controller.could_be_larger(ReplicaId(0), 32)) << "8 steps of 29 samples";
  EXPECT_FALSE(controller.could_be_larger(ReplicaId(0), 29)) << "it computes on as many";
  take(controller, {Time{}, ReplicaLeft{ReplicaId(0), "", 32}});
  std::vector<Order> orders;
  ASSERT_TRUE(controller.handle(joined(1, "w0", 32), orders).ok());
  const auto& again = std::get<Release>(orders.at(0));
  EXPECT_EQ(again.lease, (Lease{0, 768, 1000}));
  EXPECT_EQ(again.steps, 7);
}

TEST(Controller, CommitsOfDifferencesAreWholeHoweverFewSamplesAreInThem) {
  const std::vector<Fact> facts = {joined(0, "w0", 3), joined(1, "w1", 2), ready(0, 1, 0), ready(1, 1, 0),
                                   ready(0, 2, 1)};
  const auto commits = commits_of(config_of(22, 22, 2), "local-sgd:4", facts);
  ASSERT_EQ(commits.size(), 2u);
  for (const CommitRecord& commit : commits) {
    EXPECT_TRUE(commit.of_differences);
    EXPECT_EQ(commit.fraction, 1.0);
  }
  EXPECT_EQ(commits[0].nominal, 20);
  EXPECT_DOUBLE_EQ(commits[0].members[0].weight, 0.6);
  EXPECT_EQ(commits[1].samples, 2);
  EXPECT_FALSE(commits_of(config_of(22, 22, 2), "bsp", facts).at(0).of_differences);
}

// Gives everybody's gradient a commit of its own, once all are ready.
class OneByOne final : public policy::SyncPolicy {
 public:
  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    orders.release(fact.replica, {});
  }
  void left(Time, const policy::Left&, policy::Orders&) override {}
  void ready(Time, const policy::Ready& fact, policy::Orders& orders) override {
    finished_.push_back({fact.replica, fact.clock});
    if (finished_.size() < 2) return;
    for (const policy::Contribution& one : finished_) orders.commit({one}, {});
  }
  policy::Bounds bounds() const override { return {}; }

 private:
  std::vector<policy::Contribution> finished_;
};

TEST(Controller, EachOfTheCommitsOfOneFactHasACheckpointOfItsOwn) {
  ControllerConfig config = config_of(100, 100, 2);
  config.checkpoint_every = 1;
  config.keep_states = true;
  Controller controller(config, std::make_unique<OneByOne>());
  std::vector<Order> orders;
  for (const Fact& fact : {joined(0, "w0", 4), joined(1, "w1", 4), ready(0, 1, 0), ready(1, 1, 0)}) {
    ASSERT_TRUE(controller.handle(fact, orders).ok());
  }
  std::vector<std::string> checkpoints;
  for (const Order& order : orders) {
    if (const auto* commit = std::get_if<CommitRecord>(&order))
      checkpoints.push_back(text(*commit->checkpoint));
  }
  EXPECT_THAT(checkpoints, ElementsAre("version 1 next 8 open 4-8 w0@1 w1@0", "version 2 next 8 w0@1 w1@1"));
  std::vector<std::string> states;
  for (const ControllerState& state : controller.take_states()) states.push_back(text(state));
  EXPECT_EQ(states, checkpoints);
  EXPECT_TRUE(controller.take_states().empty());
}

// ---- Gradients that are discarded ----

// Discards every gradient of replica 0, whose turn it then is not any more; commits all others alone.
class DropsTheFirst final : public policy::SyncPolicy {
 public:
  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    orders.release(fact.replica, {});
  }
  void left(Time, const policy::Left&, policy::Orders&) override {}
  void ready(Time, const policy::Ready& fact, policy::Orders& orders) override {
    if (fact.replica == ReplicaId(0)) return orders.discard({fact.replica, fact.clock}, {"of the first"});
    orders.commit({{fact.replica, fact.clock}}, {});
    orders.release(fact.replica, {});
  }
  policy::Bounds bounds() const override { return {}; }
};

TEST(Controller, TheSamplesOfADiscardedGradientAreIssuedAgainBeforeAnythingNew) {
  Controller controller(config_of(12, 12, 2), std::make_unique<DropsTheFirst>());
  take(controller, joined(0, "w0", 2));
  take(controller, joined(1, "w1", 4));
  EXPECT_THAT(take(controller, ready(0, 1, 0)), ElementsAre("discard 0@1"));
  EXPECT_EQ(text(controller.save()), "version 0 next 6 open 0-6 w0@1 w1@0") << "the iteration counts";
  EXPECT_THAT(take(controller, ready(1, 1, 0)),
              ElementsAre("commit 1 1@1[0:2-6]", "release 1@2 on 1 [0:0-2]"));
  EXPECT_THAT(take(controller, ready(1, 2, 1)),
              ElementsAre("commit 2 1@2[0:0-2]", "release 1@3 on 2 [0:6-10]"));
}

TEST(Controller, AParkedReplicaGetsTheSamplesOfADiscardedGradient) {
  Controller controller(config_of(6, 6, 2), std::make_unique<DropsTheFirst>());
  take(controller, joined(0, "w0", 2));
  take(controller, joined(1, "w1", 4));
  EXPECT_THAT(take(controller, ready(1, 1, 0)), ElementsAre("commit 1 1@1[0:2-6]", "park 1"));
  EXPECT_THAT(take(controller, ready(0, 1, 0)), ElementsAre("discard 0@1", "release 1@2 on 1 [0:0-2]"));
  EXPECT_THAT(take(controller, ready(1, 2, 1)),
              ElementsAre("commit 2 1@2[0:0-2]", "park 1", "finish: every sample is committed"));
}

TEST(Controller, WhoIsLateForItsRoundStartsInTheNextOne) {
  Controller controller = controller_of(config_of(20, 20, 3), "backup:1");
  for (int id = 0; id < 3; ++id) take(controller, joined(id, fmt::format("w{}", id), 2));
  take(controller, ready(0, 1, 0));
  EXPECT_EQ(take(controller, ready(1, 1, 0)).front(), "commit 1 0@1[0:0-2] 1@1[0:2-4]");
  EXPECT_THAT(take(controller, ready(2, 1, 0)), ElementsAre("discard 2@1", "release 2@2 on 1 [0:4-6]"));
  take(controller, ready(2, 2, 1));
  EXPECT_EQ(take(controller, ready(0, 2, 1)).front(), "commit 2 0@2[0:6-8] 2@2[0:4-6]");
}

// Discards what nobody has finished.
class DropsTheUnfinished final : public policy::SyncPolicy {
 public:
  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    orders.release(fact.replica, {});
    orders.discard({fact.replica, fact.clock.next()}, {});
  }
  void left(Time, const policy::Left&, policy::Orders&) override {}
  void ready(Time, const policy::Ready&, policy::Orders&) override {}
  policy::Bounds bounds() const override { return {}; }
};

TEST(ControllerDeathTest, OnlyAFinishedGradientCanBeDiscarded) {
  Controller controller(config_of(10, 10, 1), std::make_unique<DropsTheUnfinished>());
  EXPECT_DEATH(take(controller, joined(0, "w0", 2)), "replica 0 has no gradient 1 to discard");
}

// ---- Facts that cannot be ----

struct Wrong {
  Fact fact;
  const char* why;
};

// At this point: 0 computes its second iteration on version 1; 1 computes its first; 2 was never here.
std::vector<Wrong> wrong_facts() {
  return {
      {joined(1, "w1", 4), "replica 1 joined before"},
      {joined(5, "w5", 0), "joined with a batch of 0 samples"},
      {joined(5, "w5", -3), "joined with a batch of -3 samples"},
      {joined(-1, "w5", 4), "numbers start at 0"},
      {joined(1 << 24, "w16777216", 4), "numbers start at 0 and end below 16777216"},
      {left(2), "replica 2 left and was not here"},
      {left(-1), "replica -1 left and was not here"},
      {ready(2, 1, 0), "replica 2 is not in this run"},
      {ready(0, 1, 0), "reports iteration 1 but was not asked for it"},
      {ready(0, 3, 1), "reports iteration 3 but was not asked for it"},
      {ready(0, 2, 0), "reports base version 0 and was released on 1"},
      {ready(0, 2, 2), "reports base version 2 and was released on 1"},
      {ready(0, 2, -1), "reports base version -1"},
      {{Time{}, ReplicaReady{ReplicaId(0), Clock(2), Version(1), Duration(-1), 0}}, "reports base version"},
  };
}

TEST(Controller, RefusesFactsThatCannotBeAndIsAsIfTheyHadNeverCome) {
  for (const char* spec : {"asp", "ssp:3", "dssp:1-4", "elastic-bsp:2", "groups:1+1:asp"}) {
    const ControllerConfig config = config_of(20, 40, 2);
    Controller calm = controller_of(config, spec);
    Controller harassed = controller_of(config, spec);
    for (Controller* one : {&calm, &harassed}) {
      take(*one, joined(0, "w0", 4));
      take(*one, joined(1, "w1", 4));
      take(*one, ready(0, 1, 0));
    }
    const std::string before = text(harassed.save());
    for (const Wrong& wrong : wrong_facts()) {
      std::vector<Order> orders;
      const absl::Status status = harassed.handle(wrong.fact, orders);
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << wrong.why;
      EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.why));
      EXPECT_THAT(orders, IsEmpty());
      EXPECT_EQ(text(harassed.save()), before) << wrong.why;
    }
    for (const Fact& fact : {ready(0, 2, 1), ready(1, 1, 0), left(0), joined(2, "w2", 4), ready(1, 2, 3)}) {
      EXPECT_EQ(take(calm, fact), take(harassed, fact)) << spec;
    }
  }
}

TEST(Controller, RefusesAReadyThatCameBefore) {
  Controller controller = controller_of(config_of(20, 40, 2), "bsp");
  take(controller, joined(0, "w0", 4));
  take(controller, joined(1, "w1", 4));
  take(controller, ready(0, 1, 0));
  std::vector<Order> orders;
  EXPECT_FALSE(controller.handle(ready(0, 1, 0), orders).ok()) << "again";
  EXPECT_FALSE(controller.handle(ready(0, 2, 0), orders).ok()) << "before it was released";
  EXPECT_THAT(orders, IsEmpty());
  EXPECT_THAT(take(controller, ready(1, 1, 0)),
              ElementsAre("commit 1 0@1[0:0-4] 1@1[0:4-8]", "release 0@2 on 1 [0:8-12]",
                          "release 1@2 on 1 [0:12-16]"));
}

// ---- Saving and restoring ----

TEST(Controller, RefusesToRestoreWhatCannotBe) {
  const std::vector<ControllerState> nonsense = {
      {Version(-1), {4, {}}, {}},
      {Version(5), {4, {}}, {}},   // more commits than samples
      {Version(1), {41, {}}, {}},  // more samples than there are
      {Version(1), {4, {{3, 5}}}, {}},
      {Version(1), {4, {}}, {{"w0", Clock(-1)}}},
      {Version(1), {4, {}}, {{"w0", Clock(5)}}},  // more iterations than samples
      {Version(3), {4, {{0, 2}}}, {}},
  };
  for (const ControllerState& state : nonsense) {
    Controller controller = controller_of(config_of(20, 40, 1), "ssp:3");
    EXPECT_EQ(controller.restore(state).code(), absl::StatusCode::kInvalidArgument) << text(state);
    EXPECT_EQ(text(controller.save()), "version 0 next 0");
    EXPECT_THAT(take(controller, joined(0, "w0", 4)), ElementsAre("release 0@1 on 0 [0:0-4]"));
  }
}

TEST(Controller, RestoresClocksByNameAndANewNameStartsLevelWithTheSlowest) {
  Controller controller = controller_of(config_of(100, 100, 3), "asp");
  ASSERT_TRUE(controller.restore({Version(9), {40, {{10, 12}}}, {{"w0", Clock(7)}, {"w1", Clock(2)}}}).ok());
  EXPECT_EQ(controller.committed_samples(), 38);
  take(controller, joined(0, "w1", 4));
  take(controller, joined(1, "w5", 4));
  EXPECT_THAT(
      take(controller, joined(2, "w0", 4)),
      ElementsAre("release 0@3 on 9 [0:10-12]", "release 1@3 on 9 [0:40-44]", "release 2@8 on 9 [0:44-48]"));
}

TEST(Controller, WhatIsRestoredAndNotStartedIsSavedAsItWas) {
  Controller controller = controller_of(config_of(100, 100, 3), "asp");
  const ControllerState state{Version(9), {40, {{10, 12}}}, {{"w0", Clock(7)}, {"w1", Clock(2)}}};
  ASSERT_TRUE(controller.restore(state).ok());
  take(controller, joined(0, "w1", 4));
  EXPECT_EQ(text(controller.save()), text(state));
}

TEST(Controller, AfterARestartNobodyIsFartherBehindThanThePolicyAllows) {
  // Replica "ahead" was held at the bound of SSP(3), 4 ahead. All start at once, so 3 is the most.
  Controller controller = controller_of(config_of(100, 100, 2), "ssp:3");
  ASSERT_TRUE(controller.restore({Version(20), {40, {}}, {{"ahead", Clock(12)}, {"behind", Clock(8)}}}).ok());
  take(controller, joined(0, "ahead", 1));
  EXPECT_THAT(take(controller, joined(1, "behind", 1)),
              ElementsAre("release 0@13 on 20 [0:40-41]", "release 1@10 on 20 [0:41-42]"));
}

TEST(Controller, ACompletedRunThatIsRestoredEndsAtOnce) {
  Controller controller = controller_of(config_of(10, 10, 1), "bsp");
  ASSERT_TRUE(controller.restore({Version(5), {10, {}}, {}}).ok());
  EXPECT_EQ(take(controller, joined(0, "w0", 4)).back(), "finish: every sample is committed");
}

// The leases of a run from one commit on, by replica.
std::vector<std::string> leases_after(const LittleCluster& cluster, Version version) {
  std::vector<std::string> lines;
  for (const Release& release : cluster.releases()) {
    if (release.version >= version) lines.push_back(text(Order(release)));
  }
  return lines;
}

TEST(Controller, ABulkSynchronousRunGoesOnAfterARestartAsIfNothingHadBeen) {
  ControllerConfig config = config_of(50, 170, 3);
  config.checkpoint_every = 1;
  const auto join_all = [](LittleCluster& cluster) {
    cluster.join("w0", 5, std::chrono::seconds(3));
    cluster.join("w1", 2, std::chrono::seconds(1));
    cluster.join("w2", 7, std::chrono::seconds(2));
  };
  LittleCluster undisturbed(config, "bsp", 0);
  join_all(undisturbed);
  undisturbed.run_until_finished();
  ASSERT_EQ(undisturbed.broken(), "");
  ASSERT_GT(undisturbed.log().size(), 10u);
  for (const CommitRecord& commit : undisturbed.log()) {
    ASSERT_TRUE(commit.checkpoint);
    LittleCluster resumed(config, "bsp", 0, commit.checkpoint);
    join_all(resumed);
    resumed.run_until_finished();
    EXPECT_EQ(resumed.broken(), "");
    EXPECT_EQ(leases_after(resumed, Version(0)), leases_after(undisturbed, commit.version))
        << commit.version.value();
  }
}

}  // namespace
}  // namespace paceline::control

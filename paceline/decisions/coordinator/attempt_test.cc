// An attempt with peers that are no more than their messages, so that they can say anything at any moment:
// what is out of turn ends the run or sends its sender away, and never harms the attempt. Time passes when a
// test says so.
#include "paceline/decisions/coordinator/attempt.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/rng.h"
#include "paceline/decisions/coordinator/testing/attempt_world.h"
#include "paceline/formats/config/coordinator_settings.h"
#include "paceline/records/store/state_text.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSamples = 64;

ServerMessage started(const std::vector<std::string>& paths = {"board"}) {
  ServerMessage message;
  as<ServerStarted>(message);
  for (const std::string& path : paths) as<ServerStarted>(message).board_paths.push_back(path);
  return message;
}

ServerMessage applied(std::int64_t version) {
  ServerMessage message;
  as<ServerApplied>(message).version = Version(version);
  return message;
}

// A server's answer about a replica's gradient; with an error if it could not map it.
ServerMessage mapped(std::int32_t replica, const std::string& error = "") {
  ServerMessage message;
  as<ServerMapped>(message).replica = ReplicaId(replica);
  as<ServerMapped>(message).error = error;
  return message;
}

class AttemptTest : public testing::Test {
 protected:
  // Starts an attempt with one server, unless `more` says otherwise.
  void start(const std::string& more, AttemptOptions options = {}) {
    options.job_toml = fmt::format("name = \"small\"\nbatch = 8\n{}", more);
    options.run = "small-run";
    options.state_text = store::state_text();
    options.job = config::coordinator_settings(config::parse_job(options.job_toml, "job.toml").value());
    options.job.foresees = false;  // these servers do not answer by themselves (foresight_test.cc)
    world_.emplace(std::move(options));
  }
  const Attempt& attempt() const { return world_->attempt(); }
  void ask_stop() { world_->happens(StopWanted{"now"}); }

  std::unique_ptr<FakeServer> server(int shard) {
    ServerMessage hello;
    as<ServerHello>(hello).shard = HostRank(shard);
    return come(hello);
  }
  std::unique_ptr<FakeServer> come(const ServerMessage& hello) { return world_->come<FakeServer>(hello); }
  std::unique_ptr<FakeWorker> worker(const std::string& name) {
    WorkerMessage hello;
    as<WorkerHello>(hello).name = name;
    return world_->come<FakeWorker>(hello);
  }
  std::unique_ptr<FakeEvaluator> evaluator() {
    EvaluatorMessage hello;
    as<EvaluatorHello>(hello);
    auto evaluator = world_->come<FakeEvaluator>(hello);
    EvaluatorMessage prepared;
    as<EvaluatorPrepared>(prepared);
    evaluator->say(prepared);
    return evaluator;
  }
  static WorkerMessage attached(const std::string& path) {
    Layout layout;
    layout.add("a", TensorKind::kParameter, {8});
    layout.add("b", TensorKind::kParameter, {8});
    WorkerMessage message;
    as<WorkerAttached>(message).dataset_size = kSamples;
    as<WorkerAttached>(message).layout = layout;
    as<WorkerAttached>(message).gradient_path = path;
    return message;
  }

  // The server has the whole model from then on.
  static void begin_serving(FakeServer& server) {
    server.next<ServerStart>();
    server.say(started());
  }
  // Takes the worker up to its replica's first release.
  static control::Release join(FakeWorker& worker, FakeServer& server) {
    take_role(worker);
    server.say(mapped(told_of_gradient(server)));
    return worker.next<BeginIteration>().release;
  }
  // The replica whose gradient the server is told to map.
  static std::int32_t told_of_gradient(FakeServer& server) {
    return server.next<MapGradient>().replica.value();
  }
  // The replica of the worker's role.
  static std::int32_t take_role(FakeWorker& worker) {
    worker.next<Boards>();
    return take_role_with_boards(worker);
  }
  // The same of a worker that has its boards.
  static std::int32_t take_role_with_boards(FakeWorker& worker) {
    WorkerMessage message;
    as<WorkerJoined>(message);
    worker.say(message);
    const std::int32_t replica = worker.next<Role>().replica.value();
    as<RoleTaken>(message).replica = ReplicaId(replica);
    worker.say(message);
    return replica;
  }
  // Its contribution is discarded: the replica that it is from then on.
  static std::int32_t discard(FakeWorker& worker, std::int32_t replica, FakeServer& server) {
    worker.say(not_finite(replica));
    EXPECT_EQ(worker.next<Dissolve>().replica.value(), replica);
    const std::int32_t next = worker.next<Role>().replica.value();
    EXPECT_NE(next, replica);
    WorkerMessage message;
    as<RoleTaken>(message).replica = ReplicaId(next);
    worker.say(message);
    EXPECT_EQ(server.next<UnmapGradient>().replica.value(), replica);
    EXPECT_EQ(told_of_gradient(server), next);
    server.say(mapped(next));
    return next;
  }
  static WorkerMessage not_finite(std::int32_t replica) {
    WorkerMessage message = ready(10, 10);
    as<WorkerReady>(message).replica = ReplicaId(replica);
    as<WorkerReady>(message).not_finite = "a";
    return message;
  }
  // The report of the first replica's first iteration.
  static WorkerMessage ready(std::int64_t compute_ns, std::int64_t worked_ns) {
    WorkerMessage message;
    as<WorkerReady>(message);
    as<WorkerReady>(message).clock = Clock(1);
    as<WorkerReady>(message).compute = Duration(compute_ns);
    as<WorkerReady>(message).worked = Duration(worked_ns);
    return message;
  }

  std::optional<AttemptWorld> world_;
};

class VersionOutOfTurn : public AttemptTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(VersionOutOfTurn, EndsTheRun) {
  start("");
  const auto lying = server(0);
  lying->say(applied(GetParam()));
  EXPECT_THAT(lying->disconnect().why, HasSubstr(fmt::format("server 0 made version {}", GetParam())));
}

TEST_P(VersionOutOfTurn, EndsTheRunAfterTheStartAsWell) {
  start("");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto lying = server(0);
  lying->next<ServerStart>();
  lying->say(started());
  lying->say(applied(GetParam()));
  EXPECT_THAT(lying->disconnect().why, HasSubstr(fmt::format("server 0 made version {}", GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Versions, VersionOutOfTurn, testing::Values(1, INT64_MAX, 0, -1));

TEST_F(AttemptTest, AServerStartsOnceWhenItIsTold) {
  start("");
  const auto measuring = evaluator();
  measuring->next<Welcome>();
  const auto lying = server(0);
  lying->say(started());
  EXPECT_EQ(lying->disconnect().why, "server 0 started out of turn");
}

TEST_F(AttemptTest, AServerHasOnePlace) {
  start("[cluster]\nservers = 2\n");
  const auto lying = server(0);
  ServerMessage hello;
  as<ServerHello>(hello).shard = HostRank(1);
  lying->say(hello);
  EXPECT_EQ(lying->disconnect().why, "server 0 said hello twice");
}

TEST_F(AttemptTest, TheWeightsToStartFromAreThoseOfAWorkerThatIsHere) {
  start("[cluster]\nservers = 2\n[[device]]\ncount = 2\n");
  auto dying = worker("w0");
  dying->say(attached("gone"));
  auto other = worker("w1");
  other->say(attached("here"));
  const auto first = server(0);
  dying->leave();
  EXPECT_EQ(attempt().missing(), (std::vector<std::string>{"server1", "w0"}));
  const auto second = server(1);
  EXPECT_EQ(first->next<ServerStart>().weights_path, "here");
  EXPECT_EQ(second->next<ServerStart>().weights_path, "here");
}

TEST_F(AttemptTest, AHostWithoutAWorkerGetsTheWeightsToStartFromOfTheNextOne) {
  AttemptOptions options;
  options.new_key = [] { return std::string("key"); };
  start("[cluster]\nhosts = 2\nplacement = \"central\"\n[[device]]\nhost = 1\n", std::move(options));
  const auto server_of = [&](int rank) {
    ServerMessage hello;
    as<ServerHello>(hello).shard = HostRank(rank);
    as<ServerHello>(hello).exchange = "somewhere";
    as<ServerHello>(hello).fabric = "sealed";
    return come(hello);
  };
  const auto keeper = server_of(0);
  const auto other = server_of(1);
  const auto training = worker("w0");
  training->say(attached("here"));
  const ServerStart kept = keeper->next<ServerStart>();
  EXPECT_TRUE(kept.first_passed_on);
  EXPECT_EQ(kept.weights_path, "");
  const ServerStart passed_on = other->next<ServerStart>();
  EXPECT_TRUE(passed_on.first_passed_on);
  EXPECT_EQ(passed_on.weights_path, "here");
}

TEST_F(AttemptTest, WeightsThatCannotBeReadAreTakenOfAnotherWorker) {
  start("[[device]]\ncount = 2\n");
  const auto lying = worker("w0");
  lying->say(attached("nowhere"));
  const auto serving = server(0);
  EXPECT_EQ(serving->next<ServerStart>().weights_path, "nowhere");
  ServerMessage message;
  as<ServerStarted>(message).error = "no such file";
  serving->say(message);
  EXPECT_EQ(lying->disconnect().why, "server 0 cannot read its weights: no such file");
  // No server has started yet, so the other worker's weights are wanted.
  const auto other = worker("w1");
  EXPECT_FALSE(other->next<Welcome>().started);
  other->say(attached("here"));
  EXPECT_EQ(serving->next<ServerStart>().weights_path, "here");
  serving->say(started());
  EXPECT_TRUE(other->hears<Boards>());
}

TEST_F(AttemptTest, AWorkerThatComesAfterTheServersHaveStartedBringsItsOptimizersStateToo) {
  start("[[device]]\ncount = 2\n");
  const auto with_state = [&](std::uint32_t state) {
    WorkerMessage message = attached("here");
    as<WorkerAttached>(message).first_state = state;
    return message;
  };
  worker("w0")->say(with_state(7));
  server(0)->say(started());
  const auto late = worker("w1");
  const Welcome welcome = late->next<Welcome>();
  EXPECT_TRUE(welcome.started);
  EXPECT_FALSE(welcome.resumed);
  EXPECT_EQ(welcome.run, "small-run");
  late->say(with_state(8));
  EXPECT_THAT(late->disconnect().why, HasSubstr("w1 has another state of its optimizer than the others"));
}

TEST_F(AttemptTest, AServerThatIsNotToldToStartNeedsNoWeights) {
  start("");
  const auto lying = server(0);
  ServerMessage message;
  as<ServerStarted>(message).error = "no such file";
  lying->say(message);
  EXPECT_EQ(lying->disconnect().why, "server 0 started out of turn");
}

TEST_F(AttemptTest, NobodyTrainsBeforeAllServersHaveItsGradient) {
  start("[cluster]\nservers = 2\n");
  const auto training = worker("w0");
  training->say(attached("path"));
  const auto first = server(0);
  const auto second = server(1);
  begin_serving(*first);
  begin_serving(*second);
  const std::int32_t replica = take_role(*training);
  told_of_gradient(*second);
  first->say(mapped(replica));
  first->say(mapped(replica));
  EXPECT_FALSE(attempt().started());
  second->say(mapped(replica));
  EXPECT_EQ(training->next<BeginIteration>().release.clock.value(), 1);
}

// ---- The memory that has the weights ----

constexpr char kProgram[] = "[program]\nrun = \"train.py\"\n";

WorkerMessage with_card(WorkerMessage message, const std::string& card, int cards) {
  as<WorkerAttached>(message).card = card;
  as<WorkerAttached>(message).cards = cards;
  return message;
}

TEST_F(AttemptTest, ServersGetTheCardOfALoneDevice) {
  start(fmt::format("epochs = 100\n{}", kProgram));
  const auto serving = server(0);
  const auto training = worker("w0");
  training->say(with_card(attached("path"), "GPU-a", 4));
  EXPECT_EQ(serving->next<ServerStart>().card, "GPU-a");
}

TEST_F(AttemptTest, SeveralDevicesGetACardOnlyIfThereIsOne) {
  for (const int cards : {1, 2}) {
    start(fmt::format("epochs = 100\n{}[[device]]\ncount = 2\n", kProgram));
    const auto serving = server(0);
    const auto training = worker("w0");
    training->say(with_card(attached("path"), "GPU-a", cards));
    EXPECT_EQ(serving->next<ServerStart>().card, cards == 1 ? "GPU-a" : "");
  }
}

// The servers are children of the first task, and see its card alone.
TEST_F(AttemptTest, DevicesThatSeeOneCardEachGetTheFirstOnes) {
  for (const std::string memory : {"auto", "gpu"}) {
    start(
        fmt::format("epochs = 100\n{}[[device]]\ncount = 3\n[cluster]\nmemory = \"{}\"\n", kProgram, memory));
    const auto serving = server(0);
    const auto w1 = worker("w1"), w0 = worker("w0");
    w1->say(with_card(attached("path 1"), "GPU-b", 1));
    EXPECT_FALSE(serving->hears<ServerStart>()) << "they may not see this card";
    w0->say(with_card(attached("path 0"), "GPU-a", 1));
    EXPECT_EQ(serving->next<ServerStart>().card, "GPU-a");
  }
}

TEST_F(AttemptTest, WeightsAreInTheHostsMemoryIfTheFirstDeviceHasNoCard) {
  start(fmt::format("epochs = 100\n{}[[device]]\ncount = 2\n", kProgram));
  const auto serving = server(0);
  const auto w1 = worker("w1"), w0 = worker("w0");
  w1->say(with_card(attached("path 1"), "GPU-b", 1));
  EXPECT_FALSE(serving->hears<ServerStart>());
  w0->say(attached("path 0"));
  EXPECT_EQ(serving->next<ServerStart>().card, "");
}

TEST_F(AttemptTest, AJobThatInsistsOnACardWaitsForADeviceThatHasOne) {
  start(fmt::format("epochs = 100\n{}[[device]]\ncount = 2\n[cluster]\nmemory = \"gpu\"\n", kProgram));
  const auto serving = server(0);
  const auto first = worker("w0"), second = worker("w1");
  first->say(attached("here"));
  EXPECT_EQ(attempt().phase(), Phase::kStarting);
  second->say(with_card(attached("there"), "GPU-b", 2));
  EXPECT_EQ(serving->next<ServerStart>().card, "GPU-b");
}

TEST_F(AttemptTest, AWorkerOfAnotherCardHasItsWeightsAndItsGradientInTheHostsMemory) {
  for (const std::string other : {"GPU-b", ""}) {
    start(fmt::format("epochs = 100\n{}[[device]]\ncount = 2\n[cluster]\nmemory = \"gpu\"\n", kProgram));
    const auto serving = server(0);
    const auto near = worker("w0"), far = worker("w1");
    near->say(with_card(attached("here"), "GPU-a", 2));
    far->say(with_card(attached("there"), other, 2));
    serving->next<ServerStart>();
    ServerMessage message = started();
    as<ServerStarted>(message).card = "GPU-a";
    as<ServerStarted>(message).host_path = "mirror";
    serving->say(message);
    const auto expect = [&](FakeWorker& one, const std::string& path, const std::string& card,
                            const std::string& own) {
      const Board board = one.next<Boards>().boards.at(0);
      EXPECT_EQ(board.path, path);
      EXPECT_EQ(board.card, card);
      take_role_with_boards(one);
      EXPECT_EQ(serving->next<MapGradient>().card, own);
    };
    expect(*near, "board", "GPU-a", "GPU-a");
    expect(*far, "mirror", "", other);
  }
}

class EvaluatorBesideACard : public AttemptTest {
 protected:
  void SetUp() override {
    start(fmt::format("epochs = 100\n{}[cluster]\nmemory = \"gpu\"\n", kProgram));
    serving_ = server(0);
    worker_ = worker("w0");
    worker_->say(with_card(attached("here"), "GPU-a", 1));
    serving_->next<ServerStart>();
    ServerMessage message = started();
    as<ServerStarted>(message).card = "GPU-a";
    as<ServerStarted>(message).host_path = "mirror";
    serving_->say(message);
    join(*worker_, *serving_);
  }
  std::unique_ptr<FakeEvaluator> welcomed() {
    EvaluatorMessage hello;
    as<EvaluatorHello>(hello);
    return world_->come<FakeEvaluator>(hello);
  }
  static void prepare(FakeEvaluator& evaluator, const std::string& card) {
    EvaluatorMessage message;
    as<EvaluatorPrepared>(message).card = card;
    evaluator.say(message);
  }
  // Whether the first commit's version is kept in the host's memory.
  bool first_version_is_in_host() {
    worker_->say(ready(10, 10));
    world_->happens(EvaluationWanted{});
    return serving_->next<Keep>().in_host;
  }

  std::unique_ptr<FakeServer> serving_;
  std::unique_ptr<FakeWorker> worker_;
};

TEST_F(EvaluatorBesideACard, ReadsTheHostsMemoryIfItDoesNotComputeOnThatCard) {
  for (const std::string card : {"GPU-b", ""}) {
    const auto measuring = welcomed();
    EXPECT_FALSE(measuring->hears<Boards>()) << "its card is not known yet";
    prepare(*measuring, card);
    const Board board = measuring->next<Boards>().boards.at(0);
    EXPECT_EQ(board.path, "mirror");
    EXPECT_EQ(board.card, "");
    measuring->leave();
  }
}

TEST_F(EvaluatorBesideACard, ReadsTheCardIfItComputesThere) {
  const auto measuring = welcomed();
  prepare(*measuring, "GPU-a");
  const Board board = measuring->next<Boards>().boards.at(0);
  EXPECT_EQ(board.path, "board");
  EXPECT_EQ(board.card, "GPU-a");
}

TEST_F(EvaluatorBesideACard, FindsItsVersionsInTheHostsMemoryIfItIsNotThereYet) {
  const auto measuring = welcomed();
  EXPECT_TRUE(first_version_is_in_host());
}

TEST_F(EvaluatorBesideACard, FindsItsVersionsInTheHostsMemoryIfItReadsThat) {
  const auto measuring = welcomed();
  prepare(*measuring, "GPU-b");
  EXPECT_TRUE(first_version_is_in_host());
}

TEST_F(EvaluatorBesideACard, CostsTheHostNothingIfItReadsTheCard) {
  const auto measuring = welcomed();
  prepare(*measuring, "GPU-a");
  EXPECT_FALSE(first_version_is_in_host());
}

TEST_F(AttemptTest, SeveralServersTakeTheCardsOfTheDevicesInTurn) {
  start(fmt::format("epochs = 100\n{}[[device]]\ncount = 3\n[cluster]\nmemory = \"gpu\"\nservers = 2\n",
                    kProgram));
  const auto first = server(0), second = server(1);
  const auto w2 = worker("w2"), w0 = worker("w0"), w1 = worker("w1");
  w2->say(with_card(attached("path 2"), "GPU-b", 2));
  w1->say(with_card(attached("path 1"), "GPU-b", 2));
  EXPECT_EQ(attempt().phase(), Phase::kStarting) << "w0 may have another card";
  w0->say(with_card(attached("path 0"), "GPU-a", 2));
  EXPECT_EQ(first->next<ServerStart>().card, "GPU-a");
  EXPECT_EQ(second->next<ServerStart>().card, "GPU-b");
}

// Devices that do not wait for each other hold different versions. One that computes on another card holds none here.
TEST_F(AttemptTest, ServersKnowHowManyVersionsDevicesOfTheirCardMayHold) {
  for (const auto& [policy, on_a, on_b] : {std::tuple{"asp", 1, 2}, {"ssp:2", 1, 2}, {"bsp", 1, 1}}) {
    start(
        fmt::format("epochs = 100\n{}[[device]]\ncount = 3\n[cluster]\nmemory = \"gpu\"\nservers = 2\n"
                    "[sync]\npolicy = \"{}\"\n",
                    kProgram, policy));
    const auto first = server(0), second = server(1);
    const auto w0 = worker("w0"), w1 = worker("w1"), w2 = worker("w2");
    w0->say(with_card(attached("path 0"), "GPU-a", 2));
    w1->say(with_card(attached("path 1"), "GPU-b", 2));
    w2->say(with_card(attached("path 2"), "GPU-b", 2));
    EXPECT_EQ(first->next<ServerStart>().card_holders, on_a) << policy;
    EXPECT_EQ(second->next<ServerStart>().card_holders, on_b) << policy;
  }
}

TEST_F(AttemptTest, ADeviceThatHasNotComeYetMayHoldAVersionOnTheCard) {
  start(fmt::format("epochs = 100\n{}[[device]]\ncount = 3\n[sync]\npolicy = \"asp\"\n", kProgram));
  const auto serving = server(0);
  const auto training = worker("w0");
  training->say(with_card(attached("path"), "GPU-a", 1));
  EXPECT_EQ(serving->next<ServerStart>().card_holders, 3);
}

TEST_F(AttemptTest, AJobThatInsistsOnACardFailsIfNoDeviceHasOne) {
  start(fmt::format("epochs = 100\n{}[cluster]\nmemory = \"gpu\"\n", kProgram));
  const auto serving = server(0);
  const auto training = worker("w0");
  training->say(attached("path"));
  EXPECT_THAT(training->disconnect().why, HasSubstr("no device of the job computes on a GPU"));
}

TEST_F(AttemptTest, AWorkerWhoseGradientCannotBeReadIsSentAway) {
  start("");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  take_role(*lying);
  serving->say(mapped(told_of_gradient(*serving), "no such file"));
  EXPECT_EQ(lying->disconnect().why, "server 0 cannot read its gradient: no such file");
  EXPECT_FALSE(attempt().missing().empty());
  const auto other = worker("w0");
  other->say(attached("path"));
  EXPECT_EQ(join(*other, *serving).clock, Clock(1));
}

// The next device would be told the address that this worker leaves out.
TEST_F(AttemptTest, AWorkerThatSaysNotHowToReachItsStageIsSentAway) {
  start(
      "parallel = \"static\"\nmicro_batch = 8\n[[device]]\ncount = 2\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [1]\nsamples = 8\n");
  const auto first = worker("w0"), second = worker("w1");
  first->say(attached("path"));
  second->say(attached("path of w1"));
  const auto serving = server(0);
  begin_serving(*serving);
  WorkerMessage joined;
  as<WorkerJoined>(joined);
  second->say(joined);
  take_role(*first);
  EXPECT_THAT(first->disconnect().why, HasSubstr("took a role with 0 and 0 channels"));
  EXPECT_FALSE(second->hears<Role>());
}

// Its samples come back to it first, to the replica that it is from then on.
TEST_F(AttemptTest, AGradientThatIsNotFiniteIsDiscarded) {
  start("epochs = 100\n");
  const auto training = worker("w0");
  training->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  control::Release release = join(*training, *serving);
  std::int32_t replica = 0;
  for (int i = 0; i < 2; ++i) {
    replica = discard(*training, replica, *serving);
    const control::Release again = training->next<BeginIteration>().release;
    EXPECT_EQ(again.lease, release.lease);
    EXPECT_EQ(again.version.value(), 0);
    release = again;
  }
  WorkerMessage message = ready(10, 10);
  as<WorkerReady>(message).replica = ReplicaId(replica);
  training->say(message);
  EXPECT_EQ(serving->next<Apply>().version.value(), 1);
}

TEST_F(AttemptTest, AWorkerWhoseBatchIsTooSmallComesAgainToALargerOne) {
  start("[[device]]\nbatch = 1\n[[device]]\n");
  const auto serving = server(0);
  const auto small = worker("w0");
  const auto large = worker("w1");
  for (const auto* one : {&small, &large}) (*one)->say(attached("path"));
  begin_serving(*serving);
  for (const auto* one : {&small, &large}) {
    take_role(**one);
    serving->say(mapped(told_of_gradient(*serving)));
  }
  EXPECT_EQ(small->next<BeginIteration>().release.lease.end, 1);
  WorkerMessage message;
  as<TooFew>(message).least = 3;
  as<TooFew>(message).why = "train.py:3: ValueError: too few";
  small->say(message);
  EXPECT_TRUE(small->disconnect().again);
  EXPECT_THAT(world_->news,
              testing::Contains(HasSubstr("w0: train.py:3: ValueError: too few. From now on a batch has "
                                          "at least 3 samples, and w0 starts its program again")));
  const auto again = worker("w0");
  again->say(attached("path"));
  const Lease lease = join(*again, *serving).lease;
  EXPECT_EQ(lease.size(), 3);
  EXPECT_EQ(lease.scrap_end - lease.scrap_begin, 1) << "the sample that it failed on";
  // A batch has as many samples already, so the program fails for another reason.
  again->say(message);
  EXPECT_TRUE(again->disconnect().refused);
}

TEST_F(AttemptTest, AWorkerWhoseLocalStepsAreTooSmallComesAgainToFewer) {
  start("[sync]\npolicy = \"local-sgd:8\"\n[[device]]\nbatch = 10\n");
  const auto serving = server(0);
  const auto alone = worker("w0");
  alone->say(attached("path"));
  begin_serving(*serving);
  EXPECT_EQ(join(*alone, *serving).steps, 7) << "64 samples";
  WorkerMessage message;
  as<TooFew>(message).least = 10;
  as<TooFew>(message).why = "train.py:3: ValueError: too few";
  alone->say(message);
  EXPECT_THAT(alone->disconnect().why, HasSubstr("its program failed on 64 samples in 7 local steps"));
  const auto again = worker("w0");
  again->say(attached("path"));
  EXPECT_EQ(join(*again, *serving).steps, 6);
}

TEST_F(AttemptTest, AWorkerThatIsAloneWithNumbersThatAreNotFiniteIsGivenUp) {
  start("epochs = 100\n[[device]]\ncount = 2\n[sync]\npolicy = \"asp\"\n");
  const auto fine = worker("w0");
  fine->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  const auto broken = worker("w1");
  broken->say(attached("other"));
  EXPECT_EQ(take_role(*broken), 1);
  serving->say(mapped(told_of_gradient(*serving)));
  take_role(*fine);
  serving->say(mapped(told_of_gradient(*serving)));
  std::int32_t replica = 1;
  for (int i = 1; i <= 3; ++i) {
    broken->next<BeginIteration>();
    const control::Release release = fine->next<BeginIteration>().release;
    EXPECT_EQ(release.clock.value(), i);
    WorkerMessage message = ready(10, 10);
    as<WorkerReady>(message).clock = release.clock;
    as<WorkerReady>(message).base = release.version;
    fine->say(message);
    serving->next<Apply>();
    if (i == 3) {
      broken->say(not_finite(replica));
    } else {
      replica = discard(*broken, replica, *serving);
    }
  }
  EXPECT_THAT(broken->disconnect().why, HasSubstr("3 of its last 3 were no good, and none of the others'"));
  const auto again = worker("w1");
  EXPECT_THAT(again->disconnect().why, HasSubstr("w1: 'a' is not finite in its gradient"));
  EXPECT_EQ(fine->next<BeginIteration>().release.clock.value(), 4);
}

TEST_F(AttemptTest, ARunThatDivergesEnds) {
  start("epochs = 100\n");
  const auto training = worker("w0");
  training->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*training, *serving);
  std::int32_t replica = 0;
  for (int i = 0; i < 2; ++i) {
    replica = discard(*training, replica, *serving);
    training->next<BeginIteration>();
  }
  training->say(not_finite(replica));
  EXPECT_THAT(serving->disconnect().why,
              HasSubstr("the training diverges: the latest 3 gradients, of all workers, "));
}

TEST_F(AttemptTest, ACheckpointIsWrittenWhenSomebodyWantsIt) {
  start("epochs = 100\n[checkpoint]\nevery_epochs = 50\n");
  const auto training = worker("w0");
  training->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  world_->happens(CheckpointWanted{"SIGUSR1"});  // before there is anything to write
  join(*training, *serving);
  training->say(ready(10, 10));
  world_->pass(std::chrono::seconds(1));
  const std::int64_t version = serving->next<WriteCheckpoint>().version.value();
  EXPECT_EQ(version, 1);
  ServerMessage written;
  as<ServerWritten>(written).version = Version(version);
  serving->say(written);
  ASSERT_EQ(world_->news.size(), 1);
  EXPECT_EQ(world_->news[0], "SIGUSR1: the checkpoint of version 1 is written, and training goes on");
  world_->happens(CheckpointWanted{"SIGUSR2"});
  EXPECT_EQ(world_->news.back(), "SIGUSR2: the checkpoint of version 1 is there, and training goes on");
  EXPECT_EQ(attempt().phase(), Phase::kTraining);
}

// The parameter: at the end of a run, when there is less time.
class CheckpointAgain : public AttemptTest, public testing::WithParamInterface<bool> {};

TEST_P(CheckpointAgain, IsTriedWhereItCouldNotBeWritten) {
  const bool in_the_end = GetParam();
  start("epochs = 100\n[checkpoint]\nevery_epochs = 0.125\n");
  const auto training = worker("w0");
  training->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*training, *serving);
  if (in_the_end) {
    ask_stop();
  } else {
    training->say(ready(10, 10));
  }
  const std::int64_t wanted = in_the_end ? 0 : 1;
  ServerMessage written;
  for (int i = 0; i < 2; ++i) {
    world_->pass(std::chrono::seconds(i));
    const std::int64_t version = serving->next<WriteCheckpoint>().version.value();
    EXPECT_EQ(version, wanted);
    as<ServerWritten>(written).version = Version(version);
    as<ServerWritten>(written).error = i == 0 ? "the disk is full; free some space there and try again" : "";
    serving->say(written);
    EXPECT_EQ(serving->next<Drop>().version.value(), version);
  }
  ASSERT_EQ(world_->news.size(), 2);
  EXPECT_EQ(
      world_->news[0],
      fmt::format(
          "the checkpoint of version {} could not be written: the disk is full; free some space there; it is "
          "tried again in 1 s",
          wanted));
  EXPECT_EQ(world_->news[1], fmt::format("the checkpoint of version {} is written", wanted));
  if (in_the_end) {
    const Disconnect end = serving->disconnect();
    EXPECT_FALSE(end.failed);
    EXPECT_TRUE(end.stopped) << "the job is not done";
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, CheckpointAgain, testing::Bool());

TEST_F(AttemptTest, ARunWhoseHostIsInterruptedIsStoppedForThatReason) {
  start("[[device]]\ncount = 2\n");
  const auto here = worker("w0");
  here->say(attached("path"));
  EXPECT_FALSE(attempt().interrupted());
  world_->happens(StopWanted{"host 1 was interrupted", "", StopCause::kShutDown});
  world_->happens(StopWanted{"a later one", "", StopCause::kInterrupted});
  const Disconnect disconnect = here->disconnect();
  EXPECT_TRUE(disconnect.interrupted);
  EXPECT_EQ(disconnect.why, "host 1 was interrupted");
  ASSERT_TRUE(attempt().interrupted());
  EXPECT_EQ(attempt().interrupted()->cause, StopCause::kShutDown);
}

TEST_F(AttemptTest, AStopThatSomebodyAskedForIsNoInterruption) {
  start("[[device]]\ncount = 2\n");
  const auto here = worker("w0");
  here->say(attached("path"));
  world_->happens(StopWanted{"stopped from a page"});
  const Disconnect disconnect = here->disconnect();
  EXPECT_TRUE(disconnect.stopped);
  EXPECT_FALSE(disconnect.interrupted);
  EXPECT_FALSE(attempt().interrupted());
}

TEST_F(AttemptTest, AHostThatCannotStartIsTheRunsFailureAndNoStop) {
  start("[[device]]\ncount = 2\n");
  const auto here = worker("w0");
  here->say(attached("path"));
  world_->happens(StopWanted{"a process could not start", "host 1: no such data"});
  const Disconnect disconnect = here->disconnect();
  EXPECT_TRUE(disconnect.failed);
  EXPECT_EQ(disconnect.why, "host 1: no such data");
  EXPECT_EQ(attempt().result().message(), "host 1: no such data");
}

TEST_F(AttemptTest, AHostThatDoesNotComeEndsTheStart) {
  start("[cluster]\nhosts = 2\n[[device]]\ncount = 2\n");
  const auto here = worker("w0");
  here->say(attached("path"));
  ServerMessage hello;
  as<ServerHello>(hello).exchange = "somewhere";
  as<ServerHello>(hello).fabric = "sealed";
  const auto serving = come(hello);
  EXPECT_EQ(attempt().phase_in_words(), "starting: 1 of 2 workers are here; host 1 is not");
  world_->keeps_beating(*here);
  world_->keeps_beating(*serving);
  world_->pass(std::chrono::seconds(590));
  EXPECT_TRUE(attempt().result().ok()) << attempt().result();
  world_->pass(std::chrono::seconds(20));
  EXPECT_EQ(
      std::string(attempt().result().message()),
      "host 1 has not come within 600 s; is `paceline node` running there, and does a firewall let it reach "
      "this host?");
}

TEST_F(AttemptTest, ACheckpointThatCannotBeWrittenInTheEndIsSaid) {
  start("epochs = 100\n");
  const auto training = worker("w0");
  training->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*training, *serving);
  ask_stop();
  ServerMessage written;
  as<ServerWritten>(written).error = "the disk is full";
  world_->keeps_beating(*serving);
  for (int i = 0; i < 4; ++i) {
    if (i > 0) world_->pass(std::chrono::seconds(1 << (i - 1)));
    as<ServerWritten>(written).version = Version(serving->next<WriteCheckpoint>().version.value());
    serving->say(written);
  }
  const Disconnect disconnect = serving->disconnect();
  EXPECT_TRUE(disconnect.failed);
  EXPECT_EQ(disconnect.why, "the checkpoint of version 0 could not be written: the disk is full");
}

TEST_F(AttemptTest, ANormThatIsNoneIsTheWorkersEnd) {
  start("");
  const auto serving = server(0);
  bool serves = false;
  for (const double norm : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto lying = worker("w0");
    lying->say(attached("path"));
    if (!std::exchange(serves, true)) begin_serving(*serving);
    join(*lying, *serving);
    WorkerMessage message = ready(10, 10);
    as<WorkerReady>(message).norm = norm;
    lying->say(message);
    EXPECT_EQ(lying->disconnect().why, "sent a gradient of an impossible norm") << norm;
    EXPECT_FALSE(attempt().missing().empty());
  }
}

TEST_F(AttemptTest, AServerLostBeforeTheFirstStartEndsTheRunForThatReason) {
  start("");
  const auto serving = server(0);
  serving->leave();
  EXPECT_FALSE(attempt().can_go_on());
  EXPECT_EQ(attempt().result().message(), "server 0 died");
  EXPECT_EQ(exit_reason_of(attempt().result()), ExitReason::kMemberLost);
}

TEST_F(AttemptTest, AGradientThatIsNotThereTakesTheRunBackWithoutItsWorker) {
  start("");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*lying, *serving);
  lying->say(ready(10, 10));
  serving->next<Apply>();
  ServerMessage failed;
  as<ServerFailed>(failed).error = "the worker's buffer holds iteration 0, not 1";
  as<ServerFailed>(failed).not_here = ReplicaId(0);
  serving->say(failed);
  EXPECT_TRUE(attempt().can_go_on()) << attempt().result();
  EXPECT_THAT(attempt().wrong_workers(), testing::ElementsAre(testing::Pair(
                                             "w0", "w0 did not leave the gradient that it said was ready")));
}

TEST_F(AttemptTest, AWorkerThatAnAttemptWasLostByIsNotLetIn) {
  AttemptOptions options;
  options.given_up = {{"w0", "w0 was wrong"}};
  start("[[device]]\ncount = 2\n", std::move(options));
  EXPECT_EQ(worker("w0")->disconnect().why, "w0 was wrong");
  EXPECT_TRUE(worker("w1")->hears<Welcome>());
}

class WorkedOutOfReason : public AttemptTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(WorkedOutOfReason, IsRefused) {
  start("");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*lying, *serving);
  lying->say(ready(10, GetParam()));
  EXPECT_EQ(lying->disconnect().why, fmt::format("worked for {} ns of 10", GetParam()));
}

TEST_F(AttemptTest, AWorkerWithOtherDataIsRefused) {
  start("[[device]]\ncount = 3\n");
  WorkerMessage message = attached("path");
  as<WorkerAttached>(message).data_digest = "red";
  const auto first = worker("w0");
  first->say(message);
  const auto unknown = worker("w1");
  unknown->say(attached("path"));
  const auto other = worker("w2");
  as<WorkerAttached>(message).data_digest = "blue";
  other->say(message);
  EXPECT_THAT(other->disconnect().why,
              HasSubstr("w2 has other data than the others: its digest is 'blue', theirs 'red'; copy one"));
}

TEST_F(AttemptTest, AWorkerThatWouldCutTheModelElsewhereIsRefused) {
  start("[[device]]\ncount = 5\n");
  const auto with = [&](std::uint32_t digest, const std::string& libraries) {
    WorkerMessage message = attached("path");
    as<WorkerAttached>(message).cuts = {digest, libraries};
    return message;
  };
  const auto first = worker("w0"), same = worker("w1"), whole = worker("w2"), old = worker("w3"),
             other = worker("w4");
  first->say(with(5, "PyTorch 2.8.0"));
  same->say(with(5, "PyTorch 2.7.1"));
  EXPECT_FALSE(same->hears<Disconnect>());
  whole->say(attached("path"));
  EXPECT_FALSE(whole->hears<Disconnect>());
  old->say(with(6, "PyTorch 2.0.1"));
  EXPECT_EQ(old->disconnect().why,
            "w3 on host 0 (PyTorch 2.0.1) finds other places to cut the model than w0 on host 0 (PyTorch "
            "2.8.0); install the same versions of PyTorch and of its libraries on every host");
  other->say(with(6, "PyTorch 2.8.0"));
  EXPECT_THAT(other->disconnect().why,
              HasSubstr("(PyTorch 2.8.0); the program has to call the same blocks with the same kinds of"));
}

TEST_F(AttemptTest, AWorkerWithOtherFrozenTensorsIsRefused) {
  start("[[device]]\ncount = 4\n");
  const auto with = [&](const std::string& base, const std::string& head) {
    WorkerMessage message = attached("path");
    as<WorkerAttached>(message).frozen = {{"base", base}, {"head", head}};
    return message;
  };
  const auto first = worker("w0"), same = worker("w1"), other = worker("w2"), another = worker("w3");
  first->say(with("01", "02"));
  same->say(with("01", "02"));
  other->say(with("05", "06"));
  EXPECT_THAT(
      other->disconnect().why,
      testing::AllOf(testing::StartsWith("w2 has other values of 'base' and 1 more tensors than the others"),
                     testing::HasSubstr("torch.manual_seed"), testing::HasSubstr("model.weights=FILE")));
  another->say(attached("path"));
  EXPECT_EQ(another->disconnect().why, "w3 froze other tensors of the model than the others");
}

TEST_F(AttemptTest, AWorkerWithAnotherStateOfItsOptimizerIsRefused) {
  start("[[device]]\ncount = 4\n");
  WorkerMessage message = attached("path");
  as<WorkerAttached>(message).first_state = 5;
  const auto first = worker("w0"), late = worker("w1"), other = worker("w2"), none = worker("w3");
  first->say(message);
  late->say(attached("path"));
  as<WorkerAttached>(message).first_state = 6;
  other->say(message);
  EXPECT_THAT(other->disconnect().why,
              testing::StartsWith("w2 has another state of its optimizer than the others; before join()"));
  as<WorkerAttached>(message).first_state = 0;
  none->say(message);
  EXPECT_THAT(none->disconnect().why,
              testing::StartsWith("w3 has an optimizer without a state, unlike the others; before join()"));
}

TEST_F(AttemptTest, AWorkerThatAloneHasAStateOfItsOptimizerIsRefused) {
  start("[[device]]\ncount = 2\n");
  WorkerMessage message = attached("path");
  as<WorkerAttached>(message).first_state = 0;
  const auto first = worker("w0"), other = worker("w1");
  first->say(message);
  as<WorkerAttached>(message).first_state = 5;
  other->say(message);
  EXPECT_THAT(other->disconnect().why,
              testing::StartsWith("w1 has an optimizer with a state, unlike the others"));
}

TEST_F(AttemptTest, ConstantsThatDifferAreSaid) {
  start("[[device]]\ncount = 2\n");
  Layout layout;
  layout.add("a", TensorKind::kParameter, {8});
  layout.add("frozen", TensorKind::kConstant, {8});
  layout.add("masks", TensorKind::kConstant, {8});
  WorkerMessage message = attached("path");
  as<WorkerAttached>(message).layout = layout;
  as<WorkerAttached>(message).constants = {7, 8};
  const auto first = worker("w0");
  first->say(message);
  as<WorkerAttached>(message).constants = {7, 9};
  const auto other = worker("w1");
  other->say(message);
  EXPECT_THAT(world_->news, testing::ElementsAre(
                                testing::StartsWith("w1 built 'masks' with other values than the others")));
}

TEST_F(AttemptTest, FirstWeightsOfAnotherHostThatDifferAreSaid) {
  start("cluster.hosts = 2\n[[device]]\n[[device]]\n[[device]]\nhost = 1\n");
  WorkerMessage message = attached("path");
  for (const auto& [name, weights] : {std::pair("w0", 7U), std::pair("w1", 8U), std::pair("w2", 9U)}) {
    as<WorkerAttached>(message).first_weights = weights;
    worker(name)->say(message);
  }
  EXPECT_THAT(world_->news, testing::ElementsAre(testing::StartsWith(
                                "w2 on host 1 begins with other weights than w0 on host 0, and servers")));
}

TEST_F(AttemptTest, CopiesOfOtherFirstWeightsAreRefused) {
  start("cluster.hosts = 2\ncluster.copies = 2\n[[device]]\n[[device]]\nhost = 1\n[[device]]\nhost = 1\n");
  WorkerMessage message = attached("path");
  as<WorkerAttached>(message).first_weights = 7;
  const auto first = worker("w0"), same = worker("w1"), other = worker("w2");
  first->say(message);
  same->say(message);
  as<WorkerAttached>(message).first_weights = 8;
  other->say(message);
  EXPECT_THAT(other->disconnect().why,
              HasSubstr("w2 on host 1 begins with other weights than w0 on host 0, and with "
                        "cluster.copies = 2"));
  EXPECT_THAT(world_->news, testing::IsEmpty());
}

TEST_F(AttemptTest, MetricsThatNoProgramSendsAreRefused) {
  start("");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*lying, *serving);
  WorkerMessage message = ready(10, 10);
  as<WorkerReady>(message).metrics[std::string(kLongestMetricName + 1, 'x')] = 1;
  lying->say(message);
  EXPECT_EQ(lying->disconnect().why, "sent metrics that no program can have sent");
}

TEST_F(AttemptTest, AWorkerWhoseMessageMakesNoSenseIsSentAway) {
  start("");
  const auto lying = worker("w0");
  lying->say(Unreadable{absl::InvalidArgumentError("a model of no tensors")});
  const Disconnect end = lying->disconnect();
  EXPECT_TRUE(end.refused);
  EXPECT_EQ(end.why, "a model of no tensors");
  EXPECT_THAT(attempt().missing(), testing::Contains("w0"));
}

// The time would make predictions out of range.
TEST_F(AttemptTest, AnIterationThatTookForEverIsRefused) {
  start("[sync]\npolicy = \"elastic-bsp:5\"\n");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*lying, *serving);
  lying->say(ready(INT64_MAX, 0));
  EXPECT_THAT(lying->disconnect().why, testing::StartsWith("said that an iteration took "));
}

TEST_F(AttemptTest, AnIterationThatWaitedLongerThanItTookIsRefused) {
  start("");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*lying, *serving);
  WorkerMessage message = ready(10, 10);
  as<WorkerReady>(message).loading = Duration(4);
  as<WorkerReady>(message).pulling = Duration(7);
  lying->say(message);
  EXPECT_EQ(lying->disconnect().why, "waited 4 ns for samples and 7 ns for weights, of 10");
}

TEST_F(AttemptTest, AGradientOfAnImpossibleWeightIsRefused) {
  start("");
  const auto lying = worker("w0");
  lying->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*lying, *serving);
  WorkerMessage message = ready(10, 10);
  as<WorkerReady>(message).weight = 1e308;
  lying->say(message);
  EXPECT_EQ(lying->disconnect().why, "gave its gradient the weight 1e+308; write a number from 0 to 1e+15");
}

// No commit can have taken the time that the server reports.
TEST_F(AttemptTest, AServerThatTellsOfAnUpdateThatWasNotOrderedEndsTheRun) {
  start("");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto lying = server(0);
  begin_serving(*lying);
  ServerMessage message;
  as<Heartbeat>(message);
  UpdateTime& update = message.updates.emplace_back();
  update.version = Version(1);
  update.took = Duration(5);
  lying->say(message);
  EXPECT_EQ(lying->disconnect().why, "server 0 says that version 1 took 5 ns, 0 ns ago");
}

TEST_F(AttemptTest, AServersReportsOfCommitsAndMemoryAreRecorded) {
  start("epochs = 100\n[checkpoint]\nevery_epochs = 0.125\n");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*first, *serving);
  first->say(ready(10, 10));
  ServerMessage message;
  as<Heartbeat>(message).resident_bytes = 77;
  for (const int host : {0, 3, -1}) {
    as<Heartbeat>(message).sent.push_back({.host = ServerId(host), .weights = 5});
  }
  UpdateTime& update = message.updates.emplace_back();
  update.version = Version(1);
  update.took = Duration(5);
  update.age = Duration(2);
  update.members = 1;
  serving->say(message);
  ASSERT_EQ(world_->side_work.size(), 1u);
  const control::SideWork& made = world_->side_work.front();
  EXPECT_EQ(made.kind, control::SideWork::Kind::kUpdate);
  EXPECT_EQ(made.took, Duration(5));
  EXPECT_EQ(made.members, 1);
  EXPECT_EQ(made.at, attempt().time(world_->now()) - Duration(2));
  ASSERT_EQ(world_->processes.size(), 1u);
  EXPECT_EQ(world_->processes[0].process, "server0");
  EXPECT_EQ(world_->processes[0].resident_bytes, 77);
  ASSERT_EQ(world_->processes[0].sent.size(), 2u) << "of a host that there is";
  EXPECT_EQ(world_->processes[0].sent[1], (control::Sent{"server0", "weights", 5}));
  WorkerMessage beat;
  as<Heartbeat>(beat).resident_bytes = 78;
  for (const auto& [to, kind, bytes] : {std::tuple{"w9", "gradients", 9},
                                        {"w0", "lies", 9},
                                        {"w0", "activations", 9},
                                        {"w0", "gradients", -1}}) {
    SentToStage& sent = as<Heartbeat>(beat).sent_to_stages.emplace_back();
    sent.worker = to;
    sent.kind = kind;
    sent.bytes = bytes;
  }
  first->say(beat);
  ASSERT_EQ(world_->processes.size(), 2u);
  EXPECT_THAT(world_->processes[1].sent, testing::ElementsAre(control::Sent{"w0", "activations", 9},
                                                              control::Sent{"w0", "gradients", 0}))
      << "to workers that there are, of what links carry";
  ServerMessage written;
  as<ServerWritten>(written).version = Version(serving->next<WriteCheckpoint>().version.value());
  serving->say(written);
  ASSERT_EQ(world_->side_work.size(), 2u);
  EXPECT_EQ(world_->side_work[1].kind, control::SideWork::Kind::kCheckpoint);
}

INSTANTIATE_TEST_SUITE_P(Ns, WorkedOutOfReason, testing::Values(-1, 11));

// Gradients that go to other hosts before they are in a commit: what each server is told of them.
class BetweenHosts : public AttemptTest {
 protected:
  // A device on each of these hosts, of two. Returns what the servers are told until all have joined, like told().
  std::vector<std::string> begin(const std::string& policy, const std::vector<int>& hosts,
                                 const std::string& cluster = "", AttemptOptions options = {}) {
    options.new_key = [] { return std::string("key"); };
    std::string job =
        fmt::format("epochs = 100\n[cluster]\nhosts = 2\n{}[sync]\npolicy = \"{}\"\n", cluster, policy);
    for (const int host : hosts) job += fmt::format("[[device]]\nhost = {}\n", host);
    start(job, std::move(options));
    for (int rank = 0; rank < 2; ++rank) {
      ServerMessage hello;
      as<ServerHello>(hello).shard = HostRank(rank);
      as<ServerHello>(hello).exchange = "somewhere";
      as<ServerHello>(hello).fabric = "sealed";
      servers_.push_back(come(hello));
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      workers_.push_back(worker(fmt::format("w{}", i)));
      workers_.back()->say(attached("path"));
    }
    for (const auto& server : servers_) {
      EXPECT_TRUE(server->hears<ServerStart>());
      server->say(started({"board", "board"}));
    }
    for (const auto& one : workers_) join(*one);
    return told();
  }
  // The replica that it is.
  std::int32_t join(FakeWorker& worker) {
    const std::int32_t replica = take_role(worker);
    for (const auto& server : servers_) server->say(mapped(replica));
    return replica;
  }
  void is_ready(FakeWorker& worker, std::int32_t replica) {
    say_ready(worker, replica, worker.next<BeginIteration>().release);
  }
  static void say_ready(FakeWorker& worker, std::int32_t replica, const control::Release& release) {
    WorkerMessage message = ready(10, 10);
    as<WorkerReady>(message).replica = ReplicaId(replica);
    as<WorkerReady>(message).clock = release.clock;
    as<WorkerReady>(message).base = release.version;
    worker.say(message);
  }
  void is_ready(std::int32_t replica) { is_ready(*workers_[static_cast<std::size_t>(replica)], replica); }
  // Since it was last asked: "send 0.1 as 1", "commit 0.1 (sent as 1) 1.1". All servers are told the same.
  std::vector<std::string> told() {
    std::vector<std::vector<std::string>> lines;
    for (const auto& server : servers_) {
      lines.emplace_back();
      while (const auto order = world_->next<FakeServer>(server->id())) {
        if (const auto* early = std::get_if<SendEarly>(&*order))
          lines.back().push_back(
              fmt::format("send {}.{} as {}", early->replica, early->clock, early->number));
        if (const auto* keep = std::get_if<Keep>(&*order))
          lines.back().push_back(fmt::format("keep {}", keep->version));
        const auto* const apply = std::get_if<Apply>(&*order);
        if (apply == nullptr) continue;
        std::string& line = lines.back().emplace_back("commit");
        for (const Apply::Member& member : apply->members) {
          line += fmt::format(" {}.{}", member.replica, member.clock);
          if (member.early > EarlyNumber(0)) line += fmt::format(" (sent as {})", member.early);
        }
      }
    }
    EXPECT_EQ(lines[0], lines[1]);
    return lines[0];
  }

  std::vector<std::unique_ptr<FakeServer>> servers_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
};

TEST_F(BetweenHosts, AGradientThatHasToWaitIsSentEarly) {
  begin("bsp", {0, 1});
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("send 0.1 as 1"));
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1 (sent as 1) 1.1"));
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("send 1.2 as 1")) << "each host counts for itself";
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.2 1.2 (sent as 1)"));
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("send 0.3 as 2"));
}

TEST_F(BetweenHosts, AGradientThatIsCommittedAtOnceIsNotSentEarly) {
  begin("asp", {0, 1});
  is_ready(0);
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1", "commit 1.1"));
}

// The gradient is late, and of an older version.
TEST_F(BetweenHosts, AGradientThatIsDiscardedAtOnceIsNotSentEarly) {
  begin("backup:1", {0, 1});
  is_ready(0);
  is_ready(0);
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1", "commit 0.2"));
}

TEST_F(BetweenHosts, NothingIsSentEarlyWhereSumsAreMadeOnTheWay) {
  begin("bsp", {0, 1}, "placement = \"central\"\nreduction = \"group\"\n");
  is_ready(1);
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1 1.1"));
}

TEST_F(BetweenHosts, InOnePlaceGradientsAreSentEarlyToIt) {
  begin("bsp", {0, 1}, "placement = \"central\"\nreduction = \"servers\"\n");
  is_ready(1);
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("send 1.1 as 1", "commit 0.1 1.1 (sent as 1)"));
}

TEST_F(BetweenHosts, NothingIsSentEarlyWhereShardsAreKeptTwice) {
  begin("bsp", {0, 1}, "copies = 2\n");
  is_ready(0);
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1 1.1"));
}

TEST_F(BetweenHosts, TheVersionThatARunGoesOnFromIsMeasuredIfTheJobHasAnEvaluator) {
  AttemptOptions again;
  again.restart.emplace();
  again.restart->state.version = Version(1);
  again.restart->state.ledger.next = 16;
  EXPECT_THAT(begin("bsp", {0, 1}, "copies = 2\n", again), testing::ElementsAre("keep 1"));
  servers_.clear();
  workers_.clear();
  EXPECT_THAT(begin("bsp", {0, 1}, "copies = 2\n[evaluate]\nenabled = false\n", again), testing::IsEmpty());
}

TEST_F(BetweenHosts, AHostWithTwoReplicasSendsTheirSum) {
  begin("bsp", {0, 0, 1});
  is_ready(0);
  EXPECT_TRUE(told().empty());
  is_ready(2);
  EXPECT_THAT(told(), testing::ElementsAre("send 2.1 as 1"));
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1 1.1 2.1 (sent as 1)"));
}

// Servers know that the sum goes, since two members are on that host.
TEST_F(BetweenHosts, AnotherReplicaMayComeToTheHostBeforeTheCommit) {
  begin("bsp", {0, 0, 1});
  workers_[1]->leave();
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("send 0.1 as 1"));
  workers_[1] = worker("w1");
  workers_[1]->say(attached("path"));
  const std::int32_t replica = join(*workers_[1]);
  is_ready(*workers_[1], replica);
  EXPECT_TRUE(told().empty());
  is_ready(2);
  EXPECT_THAT(told(), testing::ElementsAre("commit 0.1 (sent as 1) 2.1 3.1"));
}

// Keepers forget the ones before it. Replicas leave and come back at random moments.
TEST_F(BetweenHosts, ACommitNamesWhatItsHostSentLast) {
  int named = 0, unwanted = 0;
  for (const char* const policy : {"bsp", "ssp:2", "cgp", "backup:1", "elastic-bsp:4"}) {
    servers_.clear();
    workers_.clear();
    begin(policy, {0, 0, 1});
    Rng rng(7);
    const std::vector<int> hosts{0, 0, 1};
    std::map<std::int32_t, int> host_of{{0, 0}, {1, 0}, {2, 1}};
    std::vector<std::int32_t> replica_of{0, 1, 2};
    std::map<int, SendEarly> newest;
    const auto hear = [&](const ServerOrder& order) {
      if (is<SendEarly>(order)) {
        SendEarly& last = newest[host_of.at(std::get<SendEarly>(order).replica.value())];
        EXPECT_EQ(std::get<SendEarly>(order).number, last.number.next());
        unwanted += last.clock > Clock(0) ? 1 : 0;
        last = std::get<SendEarly>(order);
      }
      if (!is<Apply>(order)) return;
      for (const Apply::Member& member : std::get<Apply>(order).members) {
        if (member.early == EarlyNumber(0)) continue;
        SendEarly& last = newest[host_of.at(member.replica.value())];
        EXPECT_EQ(member.early, last.number);
        EXPECT_EQ(member.replica, last.replica);
        EXPECT_EQ(member.clock, last.clock);
        last.clock = Clock(0);
        ++named;
      }
    };
    for (int step = 0; step < 600; ++step) {
      const std::size_t at = rng.below(hosts.size());
      auto& one = workers_[at];
      if (one == nullptr) {
        one = worker(fmt::format("w{}", at));
        one->say(attached("path"));
        replica_of[at] = join(*one);
        host_of[replica_of[at]] = hosts[at];
      } else if (rng.below(8) == 0) {
        one->leave();
        one.reset();
      } else if (const auto order = world_->next<FakeWorker>(one->id());
                 order && is<BeginIteration>(*order)) {
        say_ready(*one, replica_of[at], std::get<BeginIteration>(*order).release);
      }
      while (const auto order = world_->next<FakeServer>(servers_[0]->id())) hear(*order);
    }
    EXPECT_EQ(attempt().phase(), Phase::kTraining) << policy;
  }
  EXPECT_GT(named, 20);
  EXPECT_GT(unwanted, 5);
}

TEST_F(BetweenHosts, TheNumberOfOneWhoseReplicaLeftIsNotGivenAgain) {
  begin("bsp", {0, 1});
  is_ready(0);
  EXPECT_THAT(told(), testing::ElementsAre("send 0.1 as 1"));
  workers_[0]->leave();
  EXPECT_TRUE(told().empty());
  workers_[0] = worker("w0");
  workers_[0]->say(attached("path"));
  const std::int32_t replica = join(*workers_[0]);
  is_ready(*workers_[0], replica);
  EXPECT_THAT(told(), testing::ElementsAre("send 2.1 as 2"));
  is_ready(1);
  EXPECT_THAT(told(), testing::ElementsAre("commit 1.1 2.1 (sent as 2)"));
}

// A run whose last commit is made, and neither measured nor saved yet; and a worker that comes then.
class AtTheEnd : public AttemptTest {
 protected:
  AtTheEnd() {
    start("epochs = 0.125\n");
    const auto first = worker("w0");
    first->say(attached("path"));
    serving_ = server(0);
    begin_serving(*serving_);
    join(*first, *serving_);
    first->say(ready(10, 10));
    serving_->next<Keep>();
    first->leave();
    EXPECT_FALSE(attempt().missing().empty());
    late_ = worker("w0");
    EXPECT_TRUE(attempt().missing().empty());
  }

  std::unique_ptr<FakeServer> serving_;
  std::unique_ptr<FakeWorker> late_;
};

TEST_F(AtTheEnd, AWorkerHearsHowTheRunEnds) {
  const auto measuring = evaluator();
  ServerMessage message;
  as<ServerKept>(message).version = Version(1);
  serving_->say(message);
  as<ServerWritten>(message).version = Version(1);
  serving_->say(message);
  EvaluatorMessage measured;
  as<Evaluated>(measured).version = Version(measuring->next<EvaluateVersion>().version.value());
  measuring->say(measured);
  const auto end = late_->heard<Disconnect>();
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->failed);
}

// A machine may be too busy to start one. The run is not held up, and people hear of it.
TEST_F(AtTheEnd, AnEvaluatorThatDoesNotComeIsWaitedForAndMissed) {
  ServerMessage message;
  as<ServerWritten>(message).version = Version(1);
  serving_->say(message);
  world_->keeps_beating(*serving_);
  world_->keeps_beating(*late_);
  world_->pass(std::chrono::seconds(299));
  EXPECT_EQ(attempt().phase(), Phase::kFinishing);
  world_->pass(std::chrono::seconds(2));
  EXPECT_NE(attempt().phase(), Phase::kFinishing);
  EXPECT_EQ(std::count(world_->news.begin(), world_->news.end(),
                       "no evaluator was here in time; what is not measured yet stays so"),
            1);
}

// An evaluator that ended by itself does not come again.
TEST_F(AtTheEnd, AnEvaluatorThatLeftIsMissedSooner) {
  ServerMessage message;
  as<ServerWritten>(message).version = Version(1);
  serving_->say(message);
  evaluator()->leave();
  world_->keeps_beating(*serving_);
  world_->keeps_beating(*late_);
  world_->pass(std::chrono::seconds(29));
  EXPECT_EQ(attempt().phase(), Phase::kFinishing);
  world_->pass(std::chrono::seconds(2));
  EXPECT_NE(attempt().phase(), Phase::kFinishing);
}

// A machine may be too busy for it to say that it lives.
TEST_F(AtTheEnd, AnEvaluatorThatIsSilentForMinutesIsLost) {
  ServerMessage message;
  as<ServerWritten>(message).version = Version(1);
  serving_->say(message);
  const auto measuring = evaluator();
  world_->keeps_beating(*serving_);
  world_->keeps_beating(*late_);
  world_->pass(std::chrono::seconds(329));
  EXPECT_EQ(attempt().phase(), Phase::kFinishing) << "first it may say more, then another one may come";
  world_->pass(std::chrono::seconds(3));
  EXPECT_NE(attempt().phase(), Phase::kFinishing);
}

class EndOfAProgram : public AttemptTest {
 protected:
  // The worker that says this makes the last gradient of the run.
  void train(const WorkerMessage& attached) {
    start("epochs = 0.125\n[program]\nrun = \"train.py\"\n[evaluate]\nenabled = false\n");
    worker_ = worker("w0");
    worker_->say(attached);
    serving_ = server(0);
    begin_serving(*serving_);
    join(*worker_, *serving_);
    worker_->say(ready(10, 10));
    ServerMessage message;
    as<ServerWritten>(message).version = Version(1);
    serving_->say(message);
    EXPECT_EQ(worker_->next<TakeLast>().version, Version(1));
    EXPECT_EQ(attempt().phase(), Phase::kFinishing) << "the servers are here until it has the weights";
  }

  std::unique_ptr<FakeServer> serving_;
  std::unique_ptr<FakeWorker> worker_;
};

class AtTheEndOfAProgram : public EndOfAProgram {
 protected:
  AtTheEndOfAProgram() { train(attached("path")); }
};

TEST_F(AtTheEndOfAProgram, TheRunEndsOnceItHasTheLastWeights) {
  WorkerMessage message;
  as<TookLast>(message);
  worker_->say(message);
  EXPECT_TRUE(worker_->disconnect().first);
  EXPECT_EQ(attempt().phase(), Phase::kDisconnecting);
  EXPECT_FALSE(worker("w0")->disconnect().first) << "one that comes later is another one";
}

TEST_F(AtTheEndOfAProgram, TheRunEndsWithoutAWorkerThatDies) {
  worker_->leave();
  EXPECT_EQ(attempt().phase(), Phase::kDisconnecting);
  EXPECT_TRUE(worker("w0")->disconnect().first) << "no other is left";
}

TEST_F(AtTheEndOfAProgram, TheRunWaitsAMinuteForOneThatDoesNotTakeThem) {
  world_->keeps_beating(*serving_);
  world_->keeps_beating(*worker_);
  world_->pass(std::chrono::seconds(59));
  EXPECT_EQ(attempt().phase(), Phase::kFinishing);
  world_->pass(std::chrono::seconds(2));
  EXPECT_NE(attempt().phase(), Phase::kFinishing);
}

TEST_F(EndOfAProgram, TheRunWaitsLongerForLargerWeights) {
  WorkerMessage message = attached("path");
  as<WorkerAttached>(message).layout = {};
  as<WorkerAttached>(message).layout.add("w", TensorKind::kParameter, {1'000'000, 10'000});  // 40 GB
  train(message);
  world_->keeps_beating(*serving_);
  world_->keeps_beating(*worker_);
  world_->pass(std::chrono::seconds(459));
  EXPECT_EQ(attempt().phase(), Phase::kFinishing);
  world_->pass(std::chrono::seconds(2));
  EXPECT_NE(attempt().phase(), Phase::kFinishing);
}

TEST_F(AtTheEnd, NoVersionComesAfterTheLast) {
  serving_->say(applied(INT64_MAX));
  EXPECT_THAT(serving_->disconnect().why, HasSubstr("and 1 is the newest ordered"));
}

TEST_F(AtTheEnd, AnInterruptionStopsNothingAnyMore) {
  world_->happens(StopWanted{"host 1 was interrupted", "", StopCause::kShutDown});
  EXPECT_FALSE(attempt().interrupted()) << "the job is done";
}

TEST_F(AtTheEnd, AWorkerHearsNothingOfAnAttemptThatIsNotTheLast) {
  serving_->leave();
  EXPECT_TRUE(attempt().can_go_on());
  EXPECT_FALSE(late_->hears<Disconnect>());
}

// The result of an evaluation out of turn is recorded, and the training does not hear of it.
TEST_F(AttemptTest, AnEvaluationOutOfTurnChangesNothingInTheTraining) {
  start("epochs = 4\n[evaluate]\nevery_epochs = 4\ntarget = \"accuracy >= 0.5\"\nstop_at_target = true\n");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  const auto measuring = evaluator();
  EXPECT_THAT(attempt().next_to_measure().status().message(), HasSubstr("does not train now"));
  join(*first, *serving);
  EXPECT_THAT(attempt().next_to_measure().status().message(), HasSubstr("no new version"));
  first->say(ready(10, 10));
  ASSERT_EQ(attempt().next_to_measure().value(), Version(1));
  const std::size_t facts = world_->facts.size();
  world_->happens(EvaluationWanted{});
  world_->happens(EvaluationWanted{});
  EXPECT_EQ(serving->next<Keep>().version.value(), 1);
  EXPECT_FALSE(serving->hears<Keep>()) << "once";
  ServerMessage kept;
  as<ServerKept>(kept).version = Version(1);
  serving->say(kept);
  EvaluatorMessage measured;
  as<Evaluated>(measured).version = Version(measuring->next<EvaluateVersion>().version.value());
  as<Evaluated>(measured).accuracy = 0.75;
  measuring->say(measured);
  EXPECT_EQ(serving->next<Drop>().version.value(), 1);
  EXPECT_EQ(world_->facts.size(), facts) << "the Controller was told of it";
  EXPECT_EQ(world_->evaluated, std::vector<Version>{Version(1)});
  EXPECT_EQ(attempt().phase(), Phase::kTraining) << "it stopped the run at its target";
}

TEST_F(AttemptTest, WithoutAnEvaluatorNothingIsMeasured) {
  start("[evaluate]\nenabled = false\n");
  EXPECT_THAT(attempt().next_to_measure().status().message(), HasSubstr("no evaluator"));
}

class AnotherAttempt : public AttemptTest {
 protected:
  void start_again(const std::string& more) {
    AttemptOptions options;
    options.again = true;
    start(more, std::move(options));
  }
  // The reasons of all who left.
  std::vector<std::string> left() const {
    std::vector<std::string> why;
    for (const control::Fact& fact : world_->facts) {
      if (const auto* left = std::get_if<control::ReplicaLeft>(&fact.what)) why.push_back(left->why);
    }
    return why;
  }
  // Long enough.
  void wait() { world_->pass(std::chrono::milliseconds(900)); }
};

TEST_F(AnotherAttempt, BeginsWithoutThoseThatDoNotCome) {
  start_again("[cluster]\nhost_patience_s = 0.1\n[[device]]\ncount = 4\n");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  const auto second = worker("w3");
  second->say(attached("path"));
  take_role(*second);
  serving->say(mapped(told_of_gradient(*serving)));
  take_role(*first);
  serving->say(mapped(told_of_gradient(*serving)));
  EXPECT_FALSE(attempt().started());
  wait();
  EXPECT_EQ(first->next<BeginIteration>().release.clock.value(), 1);
  EXPECT_EQ(second->next<BeginIteration>().release.clock.value(), 1);
  const std::string why = "w1, w2 did not come within 0.1 s";
  EXPECT_EQ(left(), (std::vector<std::string>{why, why}));
  const auto late = worker("w1");
  late->say(attached("path"));
  EXPECT_EQ(take_role(*late), 1);
}

// A worker is not started again in training, so its card is not known in any later attempt.
TEST_F(AnotherAttempt, DividesWeightsOverTheCardsOfThoseThatCome) {
  start_again(fmt::format(
      "{}[cluster]\nmemory = \"gpu\"\nservers = 2\nhost_patience_s = 0.1\n[[device]]\ncount = 3\n",
      kProgram));
  const auto first = server(0), second = server(1);
  const auto w0 = worker("w0"), w2 = worker("w2");
  w0->say(with_card(attached("path"), "GPU-a", 3));
  wait();
  EXPECT_EQ(attempt().phase(), Phase::kStarting) << "w2 is here, and has not said which card it has";
  w2->say(with_card(attached("path 2"), "GPU-c", 3));
  EXPECT_EQ(first->next<ServerStart>().card, "GPU-a");
  EXPECT_EQ(second->next<ServerStart>().card, "GPU-c");
  for (FakeServer* one : {first.get(), second.get()}) one->say(started());
  for (FakeWorker* one : {w0.get(), w2.get()}) {
    const std::int32_t replica = take_role(*one);
    for (FakeServer* server : {first.get(), second.get()}) server->say(mapped(replica));
  }
  wait();
  EXPECT_TRUE(attempt().started());
  EXPECT_EQ(left(), std::vector<std::string>{"w1 did not come within 0.1 s"});
}

TEST_F(AnotherAttempt, DividesWeightsOnceItWaitsForNobodyMore) {
  start_again(fmt::format(
      "{}[cluster]\nmemory = \"gpu\"\nservers = 2\nhost_patience_s = 0.1\n[[device]]\ncount = 2\n",
      kProgram));
  const auto first = server(0), second = server(1);
  const auto w0 = worker("w0");
  w0->say(with_card(attached("path"), "GPU-a", 2));
  EXPECT_FALSE(first->hears<ServerStart>());
  wait();
  EXPECT_EQ(first->next<ServerStart>().card, "GPU-a");
  EXPECT_EQ(second->next<ServerStart>().card, "GPU-a");
  for (FakeServer* one : {first.get(), second.get()}) one->say(started());
  const std::int32_t replica = take_role(*w0);
  for (FakeServer* one : {first.get(), second.get()}) one->say(mapped(replica));
  EXPECT_EQ(w0->next<BeginIteration>().release.clock.value(), 1);
}

TEST_F(AnotherAttempt, TakesAnotherCardIfTheFirstDeviceIsLost) {
  for (const std::string memory : {"auto", "gpu"}) {
    start_again(fmt::format("{}[cluster]\nmemory = \"{}\"\nhost_patience_s = 0.1\n[[device]]\ncount = 2\n",
                            kProgram, memory));
    const auto serving = server(0);
    const auto w1 = worker("w1");
    w1->say(with_card(attached("path"), "GPU-a", 1));
    EXPECT_FALSE(serving->hears<ServerStart>());
    wait();
    EXPECT_EQ(serving->next<ServerStart>().card, "GPU-a");
  }
}

// Servers drop their versions in memory once they start.
TEST_F(AnotherAttempt, StartsServersOnceTheCheckpointIsKeptTwice) {
  AttemptOptions options;
  options.again = options.awaits_copy = true;
  start("", std::move(options));
  const auto one = worker("w0");
  one->say(attached("path"));
  const auto serving = server(0);
  wait();
  EXPECT_FALSE(serving->hears<ServerStart>());
  EXPECT_EQ(attempt().phase_in_words(), "starting: another host copies the checkpoint");
  world_->happens(RestartKept{});
  begin_serving(*serving);
  join(*one, *serving);
  EXPECT_TRUE(attempt().started());
}

// The mapped gradient of a replica that was whole is given back, though the replica never joined.
TEST_F(AnotherAttempt, PlansWithoutThoseThatDoNotCome) {
  start_again(
      "parallel = \"joint\"\nmicro_batch = 2\n[cluster]\nhost_patience_s = 0.1\n"
      "[[device]]\ncount = 2\n[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
      "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 8\n[[pipeline]]\ndevices = [\"w1\"]\nsamples = 8\n");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  EXPECT_EQ(take_role(*first), 0);
  EXPECT_EQ(told_of_gradient(*serving), 0);
  wait();
  EXPECT_EQ(serving->next<UnmapGradient>().replica.value(), 0);
  const std::int32_t again = first->next<Role>().replica.value();
  EXPECT_NE(again, 0);
  WorkerMessage taken;
  as<RoleTaken>(taken).replica = ReplicaId(again);
  first->say(taken);
  serving->say(mapped(told_of_gradient(*serving)));
  EXPECT_EQ(first->next<BeginIteration>().release.clock.value(), 1);
}

// A search takes a while. What it is for comes before it ends, and again.
TEST_F(AnotherAttempt, TrainsWhileAPlanIsSearched) {
  start_again(
      "epochs = 100\nparallel = \"joint\"\nmicro_batch = 2\n"
      "[[device]]\ncount = 2\n[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
      "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 16\n");
  world_->searches_at_once = false;
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  EXPECT_EQ(take_role(*first), 0);
  serving->say(mapped(told_of_gradient(*serving)));
  const auto second = worker("w1");
  second->say(attached("path"));
  world_->keeps_beating(*first);
  world_->keeps_beating(*second);
  world_->keeps_beating(*serving);
  second->next<Boards>();
  WorkerMessage joined;
  as<WorkerJoined>(joined);
  second->say(joined);
  const auto round = [&](std::int64_t clock) {
    const control::Release release = first->next<BeginIteration>().release;
    EXPECT_EQ(release.clock.value(), clock);
    WorkerMessage message = ready(200'000'000, 100'000'000);
    as<WorkerReady>(message).clock = release.clock;
    as<WorkerReady>(message).base = release.version;
    world_->pass(std::chrono::milliseconds(200));
    first->say(message);
  };
  std::int64_t clock = 0;
  while (clock < 3) {
    round(++clock);
    EXPECT_EQ(world_->searches.size(), 1u) << "one at a time; a device that the plan has not is here";
  }
  world_->searches_at_once = true;
  world_->search();
  // How long states last has to be seen first.
  while (world_->news.empty() && clock < 100) round(++clock);
  EXPECT_EQ(first->next<Dissolve>().replica.value(), 0);
  EXPECT_TRUE(first->hears<Role>());
  EXPECT_TRUE(second->hears<Role>());
  EXPECT_THAT(world_->news, testing::ElementsAre(testing::StartsWith("re-planned: ")));
}

// Its replica leaves, and the next plan gives it a smaller stage.
TEST_F(AttemptTest, AWorkerWithoutMemoryForItsStageGetsAnotherOne) {
  start(
      "epochs = 100\nparallel = \"joint\"\nmicro_batch = 2\n[[device]]\ncount = 2\nmemory_mb = 0.7\n"
      "[[layer]]\ncount = 4\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 16\n");
  const auto first = worker("w0"), second = worker("w1");
  first->say(attached("path"));
  second->say(attached("path of w1"));
  const auto serving = server(0);
  begin_serving(*serving);
  WorkerMessage message;
  as<WorkerJoined>(message);
  for (const auto* one : {&first, &second}) {
    (*one)->next<Boards>();
    (*one)->say(message);
  }
  EXPECT_EQ(first->next<Role>().cuts, std::vector<std::int32_t>{3});
  as<RoleTaken>(message) = {.replica = ReplicaId(0), .next_paths = {"channel"}};
  first->say(message);
  second->next<Role>();
  as<RoleTaken>(message) = {.replica = ReplicaId(0)};
  second->say(message);
  serving->say(mapped(told_of_gradient(*serving)));
  EXPECT_EQ(first->next<BeginIteration>().release.clock, Clock(1));
  as<OutOfMemory>(message) = {ReplicaId(0), "train.py:3: no room for units 0 to 2"};
  world_->searches_at_once = true;
  first->say(message);
  EXPECT_EQ(second->next<Dissolve>().replica.value(), 0);
  EXPECT_THAT(world_->news,
              testing::ElementsAre(
                  HasSubstr("w0: train.py:3: no room for units 0 to 2. The planner looks for stages"),
                  testing::StartsWith("re-planned: ")));
  EXPECT_LT(first->next<Role>().cuts.front(), 3);
  first->say(message);
  EXPECT_EQ(world_->news.size(), 2u) << "it is about a stage that it does not have any more";
}

// The job says no memory. Two workers of a host share a card, so that neither has room for two of the layers.
TEST_F(AttemptTest, ARunBeginsWithAPlanThatFitsTheCardsOfItsWorkers) {
  start(
      "epochs = 100\nparallel = \"joint\"\nmicro_batch = 2\n[[device]]\ncount = 3\n"
      "[[layer]]\ncount = 4\nwork_ms = 1\nparameter_kb = 1000\noutput_kb = 1\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\", \"w2\"]\ncuts = [2, 3]\nsamples = 16\n");
  const std::vector<std::pair<std::string, std::int64_t>> cards = {
      {"GPU-0", 2'005'000'000}, {"GPU-0", 2'004'000'000}, {"GPU-1", 4'000'000'000}};
  std::vector<std::unique_ptr<FakeWorker>> workers;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    workers.push_back(worker("w" + std::to_string(i)));
    WorkerMessage message = attached("path of " + std::to_string(i));
    as<WorkerAttached>(message).card_memory = {cards[i].first, cards[i].second};
    workers.back()->say(message);
  }
  const auto serving = server(0);
  begin_serving(*serving);
  world_->searches_at_once = true;
  WorkerMessage joined;
  as<WorkerJoined>(joined);
  for (const auto& one : workers) {
    one->next<Boards>();
    one->say(joined);
  }
  EXPECT_THAT(world_->news, testing::Contains(HasSubstr("(a device has less memory than its stage needs)")));
  EXPECT_TRUE(std::any_of(workers.begin(), workers.end(), [](const auto& one) {
    return one->template hears<Role>();
  })) << "its devices take their roles one after the other";
}

TEST_F(AttemptTest, AWorkerWithoutMemoryIsSentAwayIfThePlanStays) {
  start("epochs = 100\n");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  join(*first, *serving);
  WorkerMessage message;
  as<OutOfMemory>(message) = {ReplicaId(0), "no room"};
  first->say(message);
  EXPECT_EQ(first->disconnect().why, "no room");
}

// The planner has heard of a device that its plan does without.
TEST_F(AnotherAttempt, TellsThePlannerOfADeviceThatWentBeforeTheStart) {
  start_again(
      "epochs = 100\nparallel = \"joint\"\nmicro_batch = 2\n[cluster]\nhost_patience_s = 100\n"
      "[[device]]\ncount = 2\n[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
      "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 16\n");
  const auto first = worker("w0"), second = worker("w1");
  first->say(attached("path"));
  second->say(attached("path of w1"));
  const auto serving = server(0);
  begin_serving(*serving);
  second->next<Boards>();
  WorkerMessage joined;
  as<WorkerJoined>(joined);
  second->say(joined);
  second->leave();
  EXPECT_EQ(join(*first, *serving).clock, Clock(1));
  world_->pass(std::chrono::milliseconds(100));
  const auto left = [](const control::Fact& fact) {
    return std::holds_alternative<control::DeviceLeft>(fact.what);
  };
  EXPECT_EQ(std::count_if(world_->facts.begin(), world_->facts.end(), left), 1);
}

TEST_F(AnotherAttempt, IsFollowedByOneMoreWhereNoReplicaIsWhole) {
  start_again(
      "parallel = \"static\"\nmicro_batch = 8\nwork = [1, 2]\n[cluster]\nhost_patience_s = 0.1\n"
      "[[device]]\ncount = 2\n[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [1]\nsamples = 8\n");
  const auto first = worker("w0");
  first->say(attached("path"));
  const auto serving = server(0);
  begin_serving(*serving);
  wait();
  EXPECT_TRUE(attempt().can_go_on());
  EXPECT_EQ(attempt().result().message(), "w1 did not come within 0.1 s, and no replica is whole");
}

// Hosts boot one after the other after a power cut.
TEST_F(AnotherAttempt, WaitsLongerForHostsThatAreStartedAnew) {
  AttemptOptions options;
  options.again = options.hosts_start = true;
  start("[cluster]\nhosts = 2\nhost_patience_s = 5\n[[device]]\n[[device]]\nhost = 1\n", std::move(options));
  const auto serving = server(0);
  world_->keeps_beating(*serving);
  world_->pass(std::chrono::seconds(599));
  EXPECT_TRUE(attempt().lost_hosts().empty());
  world_->pass(std::chrono::seconds(2));
  EXPECT_EQ(attempt().lost_hosts(), std::vector<HostRank>{HostRank(1)});
  EXPECT_THAT(attempt().result().message(), HasSubstr("host 1 did not come back within 600 s"));
}

// Launchers of other hosts may have come here already. They hear meanwhile where to go.
TEST_F(AnotherAttempt, LeavesTheLeadToTheHostThatLedBeforeOnceAllHaveHeardOfIt) {
  AttemptOptions options;
  options.again = options.first = true;
  start("", std::move(options));
  const auto one = worker("w0");
  world_->happens(LeaderIsBack{HostRank(2), "10.0.0.2:1"});
  ASSERT_NE(attempt().gives_way_to(), nullptr);
  EXPECT_EQ(attempt().gives_way_to()->address, "10.0.0.2:1");
  one->say(attached("path"));
  const auto serving = server(0);
  world_->pass(std::chrono::milliseconds(1900));
  EXPECT_FALSE(attempt().can_go_on());
  EXPECT_FALSE(serving->hears<ServerStart>()) << "it would drop what it has";
  world_->pass(std::chrono::milliseconds(400));
  EXPECT_EQ(exit_reason_of(attempt().result()), ExitReason::kLeavesLead);
  EXPECT_EQ(attempt().phase(), Phase::kWentBack)
      << "its processes hear no disconnect, and come to the other host";
}

TEST_F(AnotherAttempt, KeepsTheLeadIfTheHostBeforeMayLackSomethingOfTheRun) {
  for (const bool first : {true, false}) {
    AttemptOptions options;
    options.again = true;
    options.first = first;
    start("", std::move(options));
    const auto one = worker("w0");
    one->say(attached("path"));
    std::unique_ptr<FakeServer> serving;
    if (first) {
      serving = server(0);
      serving->next<ServerStart>();
    }
    world_->happens(LeaderIsBack{HostRank(2), "10.0.0.2:1"});
    EXPECT_EQ(attempt().gives_way_to(), nullptr);
    world_->pass(std::chrono::milliseconds(2900));
    EXPECT_FALSE(attempt().can_go_on());
  }
}

TEST_F(AnotherAttempt, WaitsForAHostForAsLongAsItListens) {
  start_again("[cluster]\nhosts = 2\nhost_patience_s = 5\n[[device]]\n[[device]]\nhost = 1\n");
  const auto serving = server(0);
  world_->keeps_beating(*serving);
  world_->pass(std::chrono::seconds(4));
  world_->stand_still(std::chrono::seconds(20));
  EXPECT_TRUE(attempt().lost_hosts().empty()) << "nobody could have come meanwhile";
  world_->pass(std::chrono::milliseconds(900));
  EXPECT_TRUE(attempt().lost_hosts().empty());
  world_->pass(std::chrono::milliseconds(200));
  EXPECT_EQ(attempt().lost_hosts(), std::vector<HostRank>{HostRank(1)});
}

// The processes of a host lost the coordinator of the attempt before, and are on their way.
class AnotherAttemptEndsEarly : public AnotherAttempt {
 protected:
  AnotherAttemptEndsEarly() {
    start_again("[cluster]\nhosts = 2\n[[device]]\n[[device]]\nhost = 1\n");
    const auto serving = server_of_host(0);
    ask_stop();
    serving->disconnect();
  }
  std::unique_ptr<FakeServer> server_of_host(int host) {
    ServerMessage hello;
    as<ServerHello>(hello) = {.shard = HostRank(host), .exchange = "10.0.0.1:7", .fabric = "sealed"};
    return come(hello);
  }
};

TEST_F(AnotherAttemptEndsEarly, AHostOnItsWayHearsOfTheEnd) {
  world_->pass(std::chrono::seconds(8));
  EXPECT_EQ(attempt().phase(), Phase::kDisconnecting);
  EXPECT_EQ(server_of_host(1)->disconnect().why, "now");
  world_->pass(std::chrono::seconds(1));
  EXPECT_EQ(worker("w1")->disconnect().why, "now");
  world_->pass(std::chrono::seconds(2));
  EXPECT_EQ(attempt().phase(), Phase::kOver);
}

TEST_F(AnotherAttemptEndsEarly, AHostThatDoesNotComeIsNotWaitedForLong) {
  world_->pass(std::chrono::seconds(11));
  EXPECT_EQ(attempt().phase(), Phase::kOver);
}

}  // namespace
}  // namespace paceline::coordinator

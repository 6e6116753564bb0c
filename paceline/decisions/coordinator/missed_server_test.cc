// A server whose shard is in memory that outlives it: the attempt goes on without the server, and brings the next one to
// the newest version.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/coordinator/testing/attempt_world.h"
#include "paceline/formats/config/coordinator_settings.h"

namespace paceline::coordinator {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

constexpr char kAttempt[] = "this attempt";

// One worker and one server.
class MissedServer : public testing::Test {
 protected:
  void start(const std::string& more, bool keeps = true) {
    AttemptOptions options;
    options.attempt = kAttempt;
    options.job_toml = fmt::format("name = \"small\"\nbatch = 8\nepochs = 100\n{}", more);
    options.job = config::coordinator_settings(config::parse_job(options.job_toml, "job.toml").value());
    options.job.foresees = false;  // these servers do not answer by themselves (foresight_test.cc)
    world_.emplace(std::move(options));
    worker_ = world_->come<FakeWorker>(worker_hello());
    worker_->say(attached());
    world_->keeps_beating(*worker_);
    server_ = world_->come<FakeServer>(hello(std::nullopt));
    server_->next<ServerStart>();
    server_->say(started(keeps));
    worker_->next<Boards>();
    WorkerMessage message;
    as<WorkerJoined>(message);
    worker_->say(message);
    replica_ = worker_->next<Role>().replica.value();
    as<RoleTaken>(message).replica = ReplicaId(replica_);
    worker_->say(message);
    ServerMessage mapped;
    as<ServerMapped>(mapped).replica = ReplicaId(server_->next<MapGradient>().replica.value());
    server_->say(mapped);
    worker_->next<BeginIteration>();
  }

  static WorkerMessage worker_hello() {
    WorkerMessage hello;
    as<WorkerHello>(hello).name = "w0";
    return hello;
  }
  static WorkerMessage attached() {
    Layout layout;
    layout.add("a", TensorKind::kParameter, {8});
    WorkerMessage message;
    as<WorkerAttached>(message).dataset_size = 64;
    as<WorkerAttached>(message).layout = layout;
    as<WorkerAttached>(message).gradient_path = "gradient";
    return message;
  }
  // `version`: the version that the server found in the memory; nothing: it found none.
  static ServerMessage hello(std::optional<std::int64_t> version, const std::string& attempt = kAttempt) {
    ServerMessage message;
    as<ServerHello>(message).shard = HostRank(0);
    if (!version) return message;
    KeptShard& kept = as<ServerHello>(message).kept;
    kept.attempt = attempt;
    kept.shard_count = 1;
    kept.version = Version(*version);
    return message;
  }
  static ServerMessage started(bool keeps = true) {
    ServerMessage message;
    as<ServerStarted>(message).board_paths.push_back("board");
    as<ServerStarted>(message).kept = keeps;
    return message;
  }
  // The worker's next gradient is committed.
  void commit() {
    WorkerMessage message;
    as<WorkerReady>(message).clock = Clock(++clock_);
    as<WorkerReady>(message).base = Version(clock_ - 1);
    as<WorkerReady>(message).compute = Duration(10);
    as<WorkerReady>(message).worked = Duration(10);
    as<WorkerReady>(message).replica = ReplicaId(replica_);
    worker_->say(message);
    EXPECT_EQ(worker_->next<BeginIteration>().release.version.value(), clock_);
  }
  void make_up_to(std::int64_t version) {
    ServerMessage message;
    as<Heartbeat>(message);
    UpdateTime& update = message.updates.emplace_back();
    update.version = Version(version);
    server_->say(message);
  }
  void kill_server() { server_->leave(); }
  void come_again(std::optional<std::int64_t> version, const std::string& attempt = kAttempt) {
    server_ = world_->come<FakeServer>(hello(version, attempt));
  }
  bool went_back() const { return world_->ended; }

  std::optional<AttemptWorld> world_;
  std::unique_ptr<FakeWorker> worker_;
  std::unique_ptr<FakeServer> server_;
  std::int32_t replica_ = 0;
  std::int64_t clock_ = 0;
};

TEST_F(MissedServer, GetsTheCommitsThatItHasNotMade) {
  start("");
  commit();
  commit();
  kill_server();
  EXPECT_FALSE(went_back());
  EXPECT_THAT(world_->attempt().missing(), Contains("server0"));
  commit();
  come_again(1);
  const ServerStart order = server_->next<ServerStart>();
  EXPECT_TRUE(order.take_up);
  EXPECT_EQ(order.version, Version(1));
  EXPECT_EQ(server_->next<MapGradient>().path, "gradient");
  for (const std::int64_t version : {2, 3}) EXPECT_EQ(server_->next<Apply>().version.value(), version);
  server_->say(started());
  commit();
  EXPECT_EQ(server_->next<Apply>().version.value(), 4);
  EXPECT_EQ(world_->news.back(), "server 0 died; it is back with version 1, and nothing is lost");
  EXPECT_THAT(world_->attempt().missing(), IsEmpty());
}

TEST_F(MissedServer, MayDieAgainBeforeItHasStarted) {
  start("");
  commit();
  kill_server();
  come_again(0);
  kill_server();
  EXPECT_FALSE(went_back());
  come_again(1);
  EXPECT_TRUE(server_->next<ServerStart>().take_up);
  server_->say(started());
  kill_server();
  come_again(1);
  EXPECT_EQ(server_->next<ServerStart>().version.value(), 1);
}

TEST_F(MissedServer, IsLostIfItDiesAgainAndAgainWithoutAVersion) {
  start("");
  commit();
  for (int death = 0; death < 10; ++death) {
    kill_server();
    come_again(0);
    server_->say(started());
  }
  kill_server();
  come_again(1);
  server_->say(started());
  for (int death = 1; death < 10; ++death) {
    kill_server();
    come_again(1);
    server_->say(started());
  }
  EXPECT_FALSE(went_back());
  kill_server();
  come_again(1);
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, IsNotWaitedForForEver) {
  start("");
  commit();
  kill_server();
  world_->pass(25s);
  EXPECT_FALSE(went_back());
  world_->pass(25s);
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, IsNotLateBecauseTheCoordinatorStoodStill) {
  start("");
  commit();
  kill_server();
  world_->pass(5s);
  world_->stand_still(1h);
  world_->pass(5s);
  EXPECT_FALSE(went_back());
}

// A server that hangs may only be slow. It is told to come again, with the memory that it has itself.
TEST_F(MissedServer, MayHaveBeenSilent) {
  start("");
  ServerMessage beat;
  as<Heartbeat>(beat);
  for (int i = 0; i < 50; ++i) {
    world_->pass(100ms);
    server_->say(beat);
  }
  commit();
  world_->pass(10s);
  EXPECT_FALSE(went_back());
  EXPECT_THAT(server_->disconnect().why, HasSubstr("silent"));
  come_again(0);
  EXPECT_TRUE(server_->next<ServerStart>().take_up);
  EXPECT_EQ(server_->next<Apply>().version.value(), 1);
}

// Silences of a stopped coordinator are not the rhythm of those whom it did not hear.
TEST_F(MissedServer, IsMissedAsSoonAsAWorkerAfterTheCoordinatorStoodStill) {
  for (const bool heard : {false, true}) {
    start("");
    world_->keeps_beating(*server_);
    world_->pass(30s);
    world_->stand_still(1h, heard);
    world_->pass(2s);
    world_->all_hang();
    world_->pass(5s);
    EXPECT_THAT(server_->disconnect().why, HasSubstr("silent"));
    EXPECT_THAT(worker_->disconnect().why, HasSubstr("silent"));
  }
}

TEST_F(MissedServer, MayComeBeforeItsEndIsKnown) {
  start("");
  commit();
  const auto dead = std::move(server_);
  come_again(0);
  EXPECT_TRUE(server_->next<ServerStart>().take_up);
  dead->leave();
  EXPECT_FALSE(went_back());
  EXPECT_EQ(server_->next<Apply>().version.value(), 1);
}

TEST_F(MissedServer, HasItsPlaceForItself) {
  start("");
  const auto other = world_->come<FakeServer>(hello(std::nullopt));
  EXPECT_EQ(other->disconnect().reason, Disconnect::Reason::kPlaceTaken);
  const auto old = world_->come<FakeServer>(hello(0, "another attempt"));
  EXPECT_EQ(old->disconnect().reason, Disconnect::Reason::kPlaceTaken);
  EXPECT_FALSE(went_back());
}

TEST_F(MissedServer, IsLostIfItsMemoryIsOfAnotherAttempt) {
  start("");
  commit();
  kill_server();
  come_again(1, "another attempt");
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, IsLostIfItFoundNoMemory) {
  start("");
  commit();
  kill_server();
  come_again(std::nullopt);
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, IsLostIfNobodyHasTheOrdersSinceItsVersion) {
  start("");
  for (int i = 0; i < 3; ++i) commit();
  make_up_to(2);
  kill_server();
  come_again(1);
  EXPECT_TRUE(went_back()) << "it had made version 2";
}

TEST_F(MissedServer, IsLostIfItCannotTakeUpItsMemory) {
  start("");
  commit();
  kill_server();
  come_again(1);
  ServerMessage message;
  as<ServerStarted>(message).error = "no state of version 1 is left";
  server_->say(message);
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, IsLostAtOnceIfItsMemoryEndsWithIt) {
  start("", false);
  commit();
  kill_server();
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, ItsCheckpointIsTriedAgainOnceItHasStarted) {
  start("[checkpoint]\nevery_epochs = 0.125\n");
  commit();
  EXPECT_EQ(server_->next<WriteCheckpoint>().version.value(), 1);
  kill_server();
  EXPECT_THAT(world_->news,
              Contains(HasSubstr("the checkpoint of version 1 could not be written: server 0 died")));
  world_->pass(20s);
  come_again(1);
  world_->pass(1s);
  EXPECT_EQ(std::count_if(world_->news.begin(), world_->news.end(),
                          [](const std::string& line) {
                            return line.find("could not be written") != std::string::npos;
                          }),
            1);
  server_->say(started());
  world_->keeps_beating(*server_);
  world_->pass(5s);
  EXPECT_EQ(server_->next<WriteCheckpoint>().version.value(), 1);
}

}  // namespace
}  // namespace paceline::coordinator

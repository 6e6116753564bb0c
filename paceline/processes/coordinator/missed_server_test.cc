// A server whose shard is in memory that outlives it: the attempt goes on without the server, and brings the next one to
// the newest version.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/formats/wire/wire.h"
#include "paceline/processes/coordinator/testing/attempt_world.h"

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
    options.job = config::parse_job(options.job_toml, "job.toml").value();
    world_.emplace(std::move(options));
    worker_ = world_->come<FakeWorker>(worker_hello());
    worker_->say(attached());
    world_->keeps_beating(*worker_);
    server_ = world_->come<FakeServer>(hello(std::nullopt));
    server_->next(wire::ServerOrder::kStart);
    server_->say(started(keeps));
    worker_->next(wire::WorkerOrder::kBoards);
    wire::WorkerMessage message;
    message.mutable_joined();
    worker_->say(message);
    replica_ = worker_->next(wire::WorkerOrder::kRole).role().replica();
    message.mutable_role_taken()->set_replica(replica_);
    worker_->say(message);
    wire::ServerMessage mapped;
    mapped.mutable_mapped()->set_replica(
        server_->next(wire::ServerOrder::kMapGradient).map_gradient().replica());
    server_->say(mapped);
    worker_->next(wire::WorkerOrder::kRelease);
  }

  static wire::WorkerMessage worker_hello() {
    wire::WorkerMessage hello;
    hello.mutable_hello()->set_name("w0");
    return hello;
  }
  static wire::WorkerMessage attached() {
    ps::Layout layout;
    layout.add("a", ps::TensorKind::kParameter, {8});
    wire::WorkerMessage message;
    message.mutable_attached()->set_dataset_size(64);
    *message.mutable_attached()->mutable_layout() = wire::to_wire(layout);
    message.mutable_attached()->set_gradient_path("gradient");
    return message;
  }
  // `version`: the version that the server found in the memory; nothing: it found none.
  static wire::ServerMessage hello(std::optional<std::int64_t> version,
                                   const std::string& attempt = kAttempt) {
    wire::ServerMessage message;
    message.mutable_hello()->set_shard(0);
    if (!version) return message;
    wire::KeptShard& kept = *message.mutable_hello()->mutable_kept();
    kept.set_attempt(attempt);
    kept.set_shard_count(1);
    kept.set_version(*version);
    return message;
  }
  static wire::ServerMessage started(bool keeps = true) {
    wire::ServerMessage message;
    message.mutable_started()->add_board_paths("board");
    message.mutable_started()->set_kept(keeps);
    return message;
  }
  // The worker's next gradient is committed.
  void commit() {
    wire::WorkerMessage message;
    message.mutable_ready()->set_clock(++clock_);
    message.mutable_ready()->set_base(clock_ - 1);
    message.mutable_ready()->set_compute_ns(10);
    message.mutable_ready()->set_worked_ns(10);
    message.mutable_ready()->set_replica(replica_);
    worker_->say(message);
    EXPECT_EQ(worker_->next(wire::WorkerOrder::kRelease).release().version(), clock_);
  }
  void make_up_to(std::int64_t version) {
    wire::ServerMessage message;
    message.mutable_heartbeat();
    wire::UpdateTime& update = *message.add_updates();
    update.set_version(version);
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
  const wire::ServerOrder order = server_->next(wire::ServerOrder::kStart);
  EXPECT_TRUE(order.start().take_up());
  EXPECT_EQ(order.start().version(), 1);
  EXPECT_EQ(server_->next(wire::ServerOrder::kMapGradient).map_gradient().path(), "gradient");
  for (const std::int64_t version : {2, 3})
    EXPECT_EQ(server_->next(wire::ServerOrder::kApply).apply().version(), version);
  server_->say(started());
  commit();
  EXPECT_EQ(server_->next(wire::ServerOrder::kApply).apply().version(), 4);
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
  EXPECT_TRUE(server_->next(wire::ServerOrder::kStart).start().take_up());
  server_->say(started());
  kill_server();
  come_again(1);
  EXPECT_EQ(server_->next(wire::ServerOrder::kStart).start().version(), 1);
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

// A server that hangs may only be slow. It is told to come again, with the memory that it has itself.
TEST_F(MissedServer, MayHaveBeenSilent) {
  start("");
  wire::ServerMessage beat;
  beat.mutable_heartbeat();
  for (int i = 0; i < 50; ++i) {
    world_->pass(100ms);
    server_->say(beat);
  }
  commit();
  world_->pass(10s);
  EXPECT_FALSE(went_back());
  EXPECT_THAT(server_->disconnect().why(), HasSubstr("silent"));
  come_again(0);
  EXPECT_TRUE(server_->next(wire::ServerOrder::kStart).start().take_up());
  EXPECT_EQ(server_->next(wire::ServerOrder::kApply).apply().version(), 1);
}

TEST_F(MissedServer, MayComeBeforeItsEndIsKnown) {
  start("");
  commit();
  const auto dead = std::move(server_);
  come_again(0);
  EXPECT_TRUE(server_->next(wire::ServerOrder::kStart).start().take_up());
  dead->leave();
  EXPECT_FALSE(went_back());
  EXPECT_EQ(server_->next(wire::ServerOrder::kApply).apply().version(), 1);
}

TEST_F(MissedServer, HasItsPlaceForItself) {
  start("");
  const auto other = world_->come<FakeServer>(hello(std::nullopt));
  EXPECT_EQ(other->disconnect().reason(), wire::Disconnect::PLACE_TAKEN);
  const auto old = world_->come<FakeServer>(hello(0, "another attempt"));
  EXPECT_EQ(old->disconnect().reason(), wire::Disconnect::PLACE_TAKEN);
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
  wire::ServerMessage message;
  message.mutable_started()->set_error("no state of version 1 is left");
  server_->say(message);
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, IsLostAtOnceIfItsMemoryEndsWithIt) {
  start("", false);
  commit();
  kill_server();
  EXPECT_TRUE(went_back());
}

TEST_F(MissedServer, ItsCheckpointIsTriedAgain) {
  start("[checkpoint]\nevery_epochs = 0.125\n");
  commit();
  EXPECT_EQ(server_->next(wire::ServerOrder::kWriteCheckpoint).write_checkpoint().version(), 1);
  kill_server();
  EXPECT_THAT(world_->news,
              Contains(HasSubstr("the checkpoint of version 1 could not be written: server 0 died")));
  come_again(1);
  server_->say(started());
  world_->keeps_beating(*server_);
  world_->pass(5s);
  EXPECT_EQ(server_->next(wire::ServerOrder::kWriteCheckpoint).write_checkpoint().version(), 1);
}

}  // namespace
}  // namespace paceline::coordinator

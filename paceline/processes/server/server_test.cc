// A server over shards that only write down what they are asked for.
#include "paceline/processes/server/server.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using testing::ElementsAre, testing::IsEmpty;

class WrittenDown final : public Shards, public Outbox {
 public:
  std::vector<std::string> lines;
  absl::Status started = absl::OkStatus();
  absl::Status gradients = absl::OkStatus();
  bool lost = false;
  bool ready = false;  // the members of an expected commit

  void forget() override { lines.emplace_back("forget"); }
  absl::Status check(const wire::ServerStart&, wire::ServerStarted&) override { return absl::OkStatus(); }
  absl::Status start(const wire::ServerStart&, wire::ServerStarted&, const Traffic&) override {
    return started;
  }
  absl::Status map_gradient(const wire::MapGradient&) override { return gradients; }
  absl::Status unmap_gradient(std::int32_t) override { return gradients; }
  absl::Status send_early(const wire::SendEarly&) override { return absl::OkStatus(); }
  absl::Status send_ahead(const wire::Apply&) override { return absl::OkStatus(); }
  absl::Status make(const wire::Apply& commit) override {
    lines.push_back(fmt::format("make {}", commit.version()));
    return absl::OkStatus();
  }
  bool are_ready(const wire::Apply&) override { return ready; }
  absl::Status make_early(const wire::Apply& commit) override {
    lines.push_back(fmt::format("make {} early", commit.version()));
    return absl::OkStatus();
  }
  void confirm(Version version) override { lines.push_back(fmt::format("confirm {}", version)); }
  std::optional<absl::Status> prepare(const wire::Apply& commit) override {
    lines.push_back(fmt::format("prepare {}", commit.version()));
    return std::nullopt;
  }
  void publish(Version version) override { lines.push_back(fmt::format("publish {}", version)); }
  absl::Status keep(const wire::Keep&) override { return absl::OkStatus(); }
  bool keeps_elsewhere(Version) override { return false; }
  void drop(Version, bool) override {}
  void want(int, Version) override {}
  void release_reader(int) override {}
  absl::Status write_checkpoint(const wire::WriteCheckpoint&, Done) override { return absl::OkStatus(); }
  void write_copy(const WriteCopy& copy, Done) override {
    lines.push_back(fmt::format("write {} of shard {}", copy.version, copy.shard));
  }
  bool host_lost() override { return lost; }
  void explain(wire::ServerFailed&) override {}

  bool send(wire::ServerMessage message) override {
    if (message.has_prepared()) lines.push_back(fmt::format("say prepared {}", message.prepared().version()));
    if (message.has_revoked())
      lines.push_back(fmt::format("say {} is {}", message.revoked().version(),
                                  message.revoked().made() ? "made" : "not made"));
    if (message.has_failed()) lines.push_back("say failed: " + message.failed().error());
    return true;
  }
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() { begin_session(); }

  void begin_session() { server_.emplace(world_, log_, world_); }
  absl::Status start(int copies = 2) {
    wire::ServerOrder order;
    order.mutable_start()->set_attempt("1");
    order.mutable_start()->set_shard_count(2);
    order.mutable_start()->set_copies(copies);
    return server_->take(std::move(order));
  }
  absl::Status apply(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_apply()->set_version(version);
    order.mutable_apply()->set_state("state");
    return server_->take(std::move(order));
  }
  absl::Status expect(std::int64_t version, double learning_rate = 0) {
    wire::ServerOrder order;
    order.mutable_expect()->mutable_commit()->set_version(version);
    order.mutable_expect()->mutable_commit()->set_state("state");
    order.mutable_expect()->mutable_commit()->set_learning_rate(learning_rate);
    return server_->take(std::move(order));
  }
  absl::Status revoke(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_revoke()->set_version(version);
    return server_->take(std::move(order));
  }
  absl::Status publish(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_publish()->set_version(version);
    return server_->take(std::move(order));
  }
  absl::Status write_copy(std::int64_t version) {
    wire::ServerOrder order;
    order.mutable_write_copy()->set_version(version);
    return server_->take(std::move(order));
  }
  bool has_ballot() const {
    wire::ServerHello hello;
    server_->introduce(hello);
    return hello.has_ballot();
  }
  std::vector<std::string> done() { return std::exchange(world_.lines, {}); }

  WrittenDown world_;
  CommitLog log_;
  std::optional<Server> server_;
};

TEST_F(ServerTest, SaysThatAVersionIsPreparedWhenItsOutcomeComes) {
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(apply(1).ok());
  EXPECT_TRUE(server_->busy());
  EXPECT_THAT(done(), ElementsAre("forget", "prepare 1"));
  EXPECT_TRUE(server_->prepared(absl::OkStatus()).ok());
  EXPECT_FALSE(server_->busy());
  EXPECT_TRUE(publish(1).ok());
  EXPECT_THAT(done(), ElementsAre("say prepared 1", "publish 1"));
}

TEST_F(ServerTest, FailsWithAVersionThatCannotBePrepared) {
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(apply(1).ok());
  EXPECT_EQ(server_->prepared(absl::InternalError("it does not fit")).message(), "it does not fit");
  EXPECT_FALSE(server_->lost_host());
  EXPECT_THAT(done(), ElementsAre("forget", "prepare 1", "say failed: it does not fit"));
}

TEST_F(ServerTest, KeepsItsVersionsWhenAnotherHostIsLost) {
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(apply(1).ok());
  EXPECT_TRUE(server_->prepared(absl::OkStatus()).ok());
  EXPECT_TRUE(publish(1).ok());
  EXPECT_TRUE(apply(2).ok());
  world_.lost = true;
  done();
  EXPECT_TRUE(server_->prepared(absl::UnavailableError("the traffic has ended")).ok());
  EXPECT_TRUE(apply(3).ok());
  EXPECT_THAT(done(), IsEmpty()) << "no version is made any more, and the traffic has told the coordinator";
  EXPECT_TRUE(write_copy(1).ok());
  EXPECT_THAT(done(), ElementsAre("write 1 of shard 0"));
}

TEST_F(ServerTest, KeepsItsVersionsForTheNextSession) {
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(apply(1).ok());
  EXPECT_TRUE(server_->prepared(absl::OkStatus()).ok());
  done();
  begin_session();
  EXPECT_TRUE(has_ballot());
  EXPECT_THAT(done(), IsEmpty());
}

TEST_F(ServerTest, HasNoVersionsAfterAStartThatFailed) {
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(apply(1).ok());
  EXPECT_TRUE(server_->prepared(absl::OkStatus()).ok());
  begin_session();
  world_.started = absl::DataLossError("the checkpoint is damaged");
  EXPECT_FALSE(start().ok());
  done();
  begin_session();
  EXPECT_FALSE(has_ballot());
  EXPECT_THAT(done(), ElementsAre("forget"));
}

TEST_F(ServerTest, MakesAnExpectedCommitOnceItsMembersAreReadyAndNotAgainByTheOrder) {
  EXPECT_TRUE(start(1).ok());
  EXPECT_TRUE(expect(1).ok());
  EXPECT_TRUE(server_->look().ok());
  EXPECT_TRUE(server_->expects());
  EXPECT_THAT(done(), ElementsAre("forget"));
  world_.ready = true;
  EXPECT_TRUE(server_->look().ok());
  EXPECT_FALSE(server_->expects());
  EXPECT_TRUE(server_->look().ok());
  EXPECT_TRUE(apply(1).ok());
  EXPECT_THAT(done(), ElementsAre("make 1 early", "confirm 1"));
  EXPECT_TRUE(expect(2).ok());
  EXPECT_THAT(done(), ElementsAre("make 2 early")) << "the members were ready before";
  EXPECT_EQ(server_->made_early(), 2);
}

TEST_F(ServerTest, MakesAnExpectedCommitByTheOrderIfThatComesFirst) {
  EXPECT_TRUE(start(1).ok());
  EXPECT_TRUE(expect(1, 0.5).ok());
  EXPECT_TRUE(apply(1).ok()) << "a commit that was not made early may be another one";
  world_.ready = true;
  EXPECT_TRUE(server_->look().ok());
  EXPECT_THAT(done(), ElementsAre("forget", "make 1"));
}

TEST_F(ServerTest, DoesNotMakeARevokedCommitBeforeItsOrder) {
  EXPECT_TRUE(start(1).ok());
  EXPECT_TRUE(expect(1).ok());
  EXPECT_TRUE(revoke(1).ok());
  world_.ready = true;
  EXPECT_TRUE(server_->look().ok());
  EXPECT_THAT(done(), ElementsAre("forget", "say 1 is not made"));
  EXPECT_TRUE(expect(1, 0.5).ok());
  EXPECT_TRUE(revoke(1).ok());
  EXPECT_TRUE(revoke(2).ok());
  EXPECT_THAT(done(), ElementsAre("make 1 early", "say 1 is made", "say 2 is not made"));
}

TEST_F(ServerTest, FailsIfTheCoordinatorIsWrongAboutWhatItMadeEarly) {
  EXPECT_TRUE(start(1).ok());
  EXPECT_FALSE(expect(2).ok());
  world_.ready = true;
  EXPECT_TRUE(expect(1, 0.5).ok());
  EXPECT_TRUE(absl::IsInternal(apply(1)));
  wire::ServerOrder order;
  order.mutable_write_checkpoint()->set_version(0);
  EXPECT_TRUE(absl::IsInternal(server_->take(std::move(order)))) << "the state is of version 1";
  EXPECT_TRUE(start(2).ok());
  EXPECT_FALSE(expect(1).ok()) << "copies become certain in two steps";
}

TEST_F(ServerTest, OfAServerThatIsBackAVersionThatItHasIsExpectedInVain) {
  wire::ServerOrder order;
  order.mutable_start()->set_version(3);
  order.mutable_start()->set_take_up(true);
  EXPECT_TRUE(server_->take(std::move(order)).ok());
  world_.ready = true;
  EXPECT_TRUE(expect(3).ok());
  EXPECT_TRUE(revoke(3).ok());
  EXPECT_THAT(done(), ElementsAre("forget", "say 3 is made"));
}

}  // namespace
}  // namespace paceline::server

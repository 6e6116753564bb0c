// The coordinator's part in keeping weights twice: which commits are certain, and which version is written
// when a server is lost.
#include "paceline/decisions/coordinator/replication.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JobSettings three_hosts() {
  JobSettings job;
  job.hosts = job.servers = 3;
  job.copies = 2;
  job.seal = false;
  job.spread = ServerSpread::kHosts;
  return job;
}

class ReplicationTest : public testing::Test {
 protected:
  ReplicationTest() {
    for (int i = 0; i < 3; ++i) {
      ServerHello hello;
      hello.shard = HostRank(i);
      hello.exchange = "somewhere";
      hello.fabric = "tcp";
      EXPECT_FALSE(servers_.take_place(ServerPeer(i), hello, {}));
    }
  }

  void order(std::int64_t version) {
    control::ControllerState state;
    state.version = Version(version);
    replication_.ordered({state}, Duration(version));
  }
  void prepare(std::int64_t version, const std::vector<int>& servers) {
    for (const int server : servers)
      EXPECT_TRUE(replication_.prepared(ServerId(server), Version(version)).ok());
  }
  absl::Status wrote(int server, int shard, const std::string& error = "") {
    const CopyWritten message{ShardId(shard), error};
    return replication_.written(ServerId(server), message);
  }
  absl::Status lose(int server, std::optional<Version> newest = {}) {
    servers_.give_up(ServerId(server));
    return replication_.lose(ServerId(server), newest);
  }
  std::vector<std::string> done() {
    std::vector<std::string> lines;
    for (const Action& action : out_.take()) {
      if (const auto* open = std::get_if<OpenCheckpoint>(&action))
        lines.push_back(fmt::format("open {}", open->version));
      if (const auto* count = std::get_if<CountCheckpoint>(&action))
        lines.push_back(fmt::format("count {} at {}", count->state.version, count->elapsed.count()));
      if (const auto* send = std::get_if<SendServer>(&action)) {
        const auto& write = std::get<WriteCopy>(send->order);
        lines.push_back(fmt::format("{}: write shard {} of {}", send->to, write.shard, write.version));
      }
      if (const auto* all = std::get_if<SendServers>(&action)) {
        for (const ServerPeer to : all->to)
          lines.push_back(fmt::format("{}: publish {}", to, std::get<Publish>(all->order).version));
      }
    }
    return lines;
  }

  Outbox out_;
  const JobSettings job_ = three_hosts();
  ServerFleet servers_{job_, out_, nullptr};
  Replication replication_{job_, Version(4), servers_, out_};
};

TEST_F(ReplicationTest, PublishesAVersionThatAllHavePrepared) {
  order(5);
  prepare(5, {0, 2});
  EXPECT_THAT(done(), IsEmpty());
  EXPECT_EQ(replication_.certain(), Version(4));
  prepare(5, {1});
  EXPECT_THAT(done(), ElementsAre("0: publish 5", "1: publish 5", "2: publish 5"));
  EXPECT_EQ(replication_.certain(), Version(5));
}

TEST_F(ReplicationTest, WhenAServerIsLostTheLastCertainVersionIsWrittenAndCounts) {
  order(5);
  order(6);
  prepare(5, {0, 1, 2});
  prepare(6, {0, 2});
  done();
  EXPECT_TRUE(lose(1).ok());
  EXPECT_TRUE(replication_.saving_copies());
  EXPECT_THAT(done(), ElementsAre("open 5"));
  prepare(6, {1});
  EXPECT_THAT(done(), IsEmpty()) << "nothing becomes certain any more";
  EXPECT_TRUE(replication_.opened(std::string("folder")).ok());
  EXPECT_THAT(done(), ElementsAre("0: write shard 0 of 5", "2: write shard 1 of 5", "2: write shard 2 of 5"));
  EXPECT_TRUE(wrote(0, 0).ok() && wrote(2, 1).ok());
  EXPECT_THAT(done(), IsEmpty());
  EXPECT_TRUE(wrote(2, 2).ok());
  EXPECT_THAT(done(), ElementsAre("count 5 at 5"));
  EXPECT_FALSE(replication_.saved());
  EXPECT_TRUE(replication_.counted(absl::OkStatus()).ok());
  EXPECT_TRUE(replication_.saved());
}

TEST_F(ReplicationTest, DoesNotWriteAVersionThatACheckpointHas) {
  EXPECT_TRUE(lose(0).ok());
  EXPECT_TRUE(replication_.saved()) << "nothing was certain since the start";
  EXPECT_THAT(done(), IsEmpty());
}

TEST_F(ReplicationTest, ACheckpointOfTheLastCertainVersionIsEnough) {
  order(5);
  prepare(5, {0, 1, 2});
  done();
  EXPECT_TRUE(lose(0, Version(5)).ok());
  EXPECT_TRUE(replication_.saved());
  EXPECT_THAT(done(), IsEmpty());
}

TEST_F(ReplicationTest, TwoNeighboursAreTooMany) {
  order(5);
  prepare(5, {0, 1, 2});
  EXPECT_TRUE(lose(1).ok());
  EXPECT_TRUE(replication_.opened(std::string("folder")).ok());
  EXPECT_FALSE(lose(2).ok()) << "server 1 had the other copy of shard 1";
}

TEST_F(ReplicationTest, OnlyHoldersOfTheVotesVersionWriteIt) {
  RecoveryVote::Found found;
  found.snapshot.state.version = Version(9);
  found.holders = {true, false, true};
  replication_.take_up(found);
  EXPECT_THAT(done(), ElementsAre("open 9"));
  EXPECT_TRUE(replication_.opened(std::string("folder")).ok());
  EXPECT_THAT(done(), ElementsAre("0: write shard 0 of 9", "2: write shard 1 of 9", "2: write shard 2 of 9"));
  EXPECT_FALSE(replication_.opened(absl::ResourceExhaustedError("the disk is full")).ok());
}

}  // namespace
}  // namespace paceline::coordinator

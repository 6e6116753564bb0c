// Tests which servers write each shard when servers are lost.
#include "paceline/decisions/coordinator/emergency_checkpoint.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using Told = std::vector<std::pair<int, int>>;  // server, shard

CopyWritten wrote(int shard, const std::string& error = "") { return {ShardId(shard), error}; }

class EmergencyCheckpointTest : public ::testing::Test {
 protected:
  EmergencyCheckpoint checkpoint(IdVector<ServerId, bool> here) {
    return {shards_kept(3, 2), std::move(here), Version(5), "dir",
            [this](ServerId server, const WriteCopy& order) {
              EXPECT_EQ(order.version.value(), 5);
              EXPECT_EQ(order.dir, "dir");
              told_.emplace_back(server.value(), order.shard.value());
            }};
  }
  Told told() { return std::exchange(told_, {}); }

 private:
  Told told_;
};

TEST_F(EmergencyCheckpointTest, AShardWhoseServerIsLostIsWrittenByItsNeighbour) {
  EmergencyCheckpoint one = checkpoint({true, false, true});
  ASSERT_TRUE(one.begin().ok());
  EXPECT_EQ(told(), (Told{{0, 0}, {2, 1}, {2, 2}}));
  EXPECT_TRUE(one.written(ServerId(2), wrote(1)).ok());
  EXPECT_TRUE(one.written(ServerId(2), wrote(2)).ok());
  EXPECT_FALSE(one.done());
  EXPECT_TRUE(one.written(ServerId(0), wrote(0)).ok());
  EXPECT_TRUE(one.done());
}

TEST_F(EmergencyCheckpointTest, ReplacesAServerThatIsLostMeanwhile) {
  EmergencyCheckpoint one = checkpoint({true, true, true});
  ASSERT_TRUE(one.begin().ok());
  EXPECT_EQ(told(), (Told{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_TRUE(one.lose(ServerId(2)).ok());
  EXPECT_EQ(told(), (Told{{0, 2}}));
  // The shard that the server wrote before it was lost counts.
  EXPECT_TRUE(one.written(ServerId(1), wrote(1)).ok());
  EXPECT_TRUE(one.lose(ServerId(1)).ok());
  EXPECT_TRUE(told().empty());
}

TEST_F(EmergencyCheckpointTest, WithoutACopyThereIsNoVersion) {
  EXPECT_FALSE(checkpoint({true, false, false}).begin().ok());
  EmergencyCheckpoint one = checkpoint({true, false, true});
  ASSERT_TRUE(one.begin().ok());
  EXPECT_FALSE(one.lose(ServerId(2)).ok());
}

TEST_F(EmergencyCheckpointTest, AnotherServerWritesAShardThatOneCannotWrite) {
  EmergencyCheckpoint one = checkpoint({true, true, true});
  ASSERT_TRUE(one.begin().ok());
  told();
  EXPECT_TRUE(one.written(ServerId(1), wrote(1, "disk full")).ok());
  EXPECT_EQ(told(), (Told{{2, 1}}));
  EXPECT_TRUE(one.written(ServerId(1), wrote(1)).ok()) << "what it says does not count any more";
  EXPECT_TRUE(one.written(ServerId(0), wrote(0)).ok());
  EXPECT_TRUE(one.written(ServerId(2), wrote(2)).ok());
  EXPECT_FALSE(one.done());
  EXPECT_FALSE(one.written(ServerId(2), wrote(0)).ok()) << "not its own to write";
  EXPECT_FALSE(one.written(ServerId(2), wrote(-1)).ok());
  const absl::Status last = one.written(ServerId(2), wrote(1, "no way there"));
  EXPECT_EQ(last.message(), "no way there; no copy of shard 1 is left");
}

}  // namespace
}  // namespace paceline::coordinator

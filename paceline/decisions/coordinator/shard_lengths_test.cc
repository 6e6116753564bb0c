#include "paceline/decisions/coordinator/shard_lengths.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ShardLengths::Said length(std::int32_t shard, std::int64_t records) {
  return {{.shard = shard, .records = records, .name = "part-7"}};
}

TEST(ShardLengths, TheSameLengthOnAllHostsIsWell) {
  ShardLengths lengths;
  EXPECT_TRUE(lengths.learn("w0", HostRank(0), length(7, 20)).ok());
  EXPECT_TRUE(lengths.learn("w1", HostRank(1), length(7, 20)).ok());
  EXPECT_TRUE(lengths.learn("w1", HostRank(1), length(8, 15)).ok());
}

TEST(ShardLengths, OtherLengthsOnTwoHostsEndTheRun) {
  ShardLengths lengths;
  EXPECT_TRUE(lengths.learn("w0", HostRank(0), length(7, 20)).ok());
  const absl::Status other = lengths.learn("w1", HostRank(1), length(7, 1)).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("w1 found 1 record in the shard 'part-7' on host 1, and it has 20 on host 0"),
                    HasSubstr("copy it to host 1 and resume the run")));
}

TEST(ShardLengths, AnotherLengthThanInAnEarlierEpochEndsTheRun) {
  ShardLengths lengths;
  EXPECT_TRUE(lengths.learn("w0", HostRank(0), length(7, 20)).ok());
  const absl::Status other = lengths.learn("w2", HostRank(0), length(7, 21)).status();
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("w2 found 21 records in the shard 'part-7' on host 0, where it had 20 before"),
                    HasSubstr("begin a new run")));
}

TEST(ShardLengths, EachLengthIsNewOnce) {
  ShardLengths lengths;
  EXPECT_THAT(*lengths.learn("w0", HostRank(0), length(7, 20)), ElementsAre(ShardRecords{7, 20}));
  EXPECT_THAT(*lengths.learn("w1", HostRank(1), length(7, 20)), ElementsAre());
}

TEST(ShardLengths, AnotherLengthThanBeforeAResumeEndsTheRun) {
  ShardLengths lengths({{7, 20}, {8, 15}});
  EXPECT_THAT(*lengths.learn("w0", HostRank(1), length(8, 15)), ElementsAre());
  const absl::Status other = lengths.learn("w0", HostRank(1), length(7, 1)).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(other.message()),
            "w0 found 1 record in the shard 'part-7' on host 1, and the run had found 20 there before it was "
            "resumed; copy the shard of that time to host 1 and resume the run, or begin a new one");
}

}  // namespace
}  // namespace paceline::coordinator

#include "paceline/decisions/coordinator/commit_quorum.h"

#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

control::ControllerState state(std::int64_t version) {
  control::ControllerState state;
  state.version = Version(version);
  return state;
}

TEST(CommitQuorum, ACommitIsCertainOnceAllHavePreparedIt) {
  CommitQuorum commits(2, Version(7));
  EXPECT_FALSE(commits.snapshot());
  commits.ordered({state(8), state(9)}, Duration(5));
  EXPECT_EQ(commits.prepared(ServerId(1), Version(8)).value(), std::nullopt);
  EXPECT_EQ(commits.latest(), Version(7));
  EXPECT_EQ(commits.prepared(ServerId(0), Version(8)).value(), Version(8));
  EXPECT_EQ(commits.latest(), Version(8));
  EXPECT_EQ(commits.snapshot()->state.version, Version(8));
  EXPECT_EQ(commits.snapshot()->elapsed, Duration(5));
  EXPECT_EQ(commits.prepared(ServerId(0), Version(9)).value(), std::nullopt);
  EXPECT_EQ(commits.snapshot()->state.version, Version(8));
}

TEST(CommitQuorum, RefusesAnImpossiblePreparation) {
  CommitQuorum commits(2, Version(0));
  EXPECT_FALSE(commits.prepared(ServerId(0), Version(1)).ok());  // the version was never ordered
  commits.ordered({state(1), state(2)}, {});
  EXPECT_FALSE(commits.prepared(ServerId(0), Version(2)).ok());  // the version before it is not certain
  EXPECT_TRUE(commits.prepared(ServerId(0), Version(1)).ok());
  EXPECT_FALSE(commits.prepared(ServerId(0), Version(1)).ok());  // twice
  EXPECT_FALSE(commits.prepared(ServerId(0), Version(2)).ok());
}

}  // namespace
}  // namespace paceline::coordinator

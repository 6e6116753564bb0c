#include "paceline/records/store/run_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

using ::testing::HasSubstr;

TEST(RunMark, SaysThatTheRunWasUnfinishedIfItIsLeft) {
  const TestDirectory directory;
  const RunPaths run{directory / ""};
  {
    const auto mark = RunMark::leave(run);
    ASSERT_TRUE(mark.ok()) << mark.status();
    EXPECT_FALSE(mark->was_unfinished());
    EXPECT_TRUE(mark->still_leads().ok());
  }
  EXPECT_FALSE(std::filesystem::exists(run.mark()));
  put_bytes(run.mark(), "of a coordinator that was killed");
  auto mark = RunMark::leave(run);
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_TRUE(mark->was_unfinished());
  mark->keep();
  mark = absl::CancelledError();
  EXPECT_TRUE(std::filesystem::exists(run.mark()));
}

TEST(RunMark, SaysThatTheRunWasUnfinishedIfAHostWasShutDown) {
  const TestDirectory directory;
  const RunPaths run{directory / ""};
  {
    const auto mark = RunMark::leave(run);
    ASSERT_TRUE(mark.ok()) << mark.status();
    ASSERT_TRUE(mark->note_shut_down().ok());
  }
  EXPECT_TRUE(std::filesystem::exists(run.shut_down()));
  const auto next = RunMark::leave(run);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(next->was_unfinished());
  EXPECT_FALSE(std::filesystem::exists(run.shut_down()));
}

TEST(RunMark, AnotherHostsMarkEndsTheLead) {
  const TestDirectory directory;
  const RunPaths run{directory / ""};
  const auto mine = RunMark::leave(run);
  ASSERT_TRUE(mine.ok()) << mine.status();
  const auto theirs = RunMark::leave(run);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_THAT(std::string(mine->still_leads().message()), HasSubstr("another host leads this run by now"));
  EXPECT_TRUE(theirs->still_leads().ok());
}

}  // namespace
}  // namespace paceline::store

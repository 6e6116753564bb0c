#include "paceline/processes/launch/task_meeting.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Optional;

class TaskMeeting : public ::testing::Test {
 protected:
  TaskMeeting() { fs::remove_all(folder_); }
  ~TaskMeeting() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "task-meeting";
  const fs::path path_ = folder_ / "runs" / ".tasks";
};

TEST_F(TaskMeeting, TheOthersHearOfTheRun) {
  TaskFollower follower(path_, "run train.py");
  EXPECT_EQ(*follower.look(), std::nullopt);
  EXPECT_FALSE(follower.leads());
  auto lead = TaskLead::begin(path_, "run train.py");
  ASSERT_TRUE(lead.ok()) << lead.status();
  EXPECT_EQ(*follower.look(), std::nullopt);
  EXPECT_TRUE(follower.leads());
  ASSERT_TRUE(lead->say("/runs/one").ok());
  EXPECT_THAT(*follower.look(), Optional(std::string("/runs/one")));
}

TEST_F(TaskMeeting, AFileThatAKilledTaskHasLeftIsNotRead) {
  fs::create_directories(path_.parent_path());
  std::ofstream(path_) << "run train.py\n/runs/old\n";
  TaskFollower follower(path_, "run train.py");
  EXPECT_EQ(*follower.look(), std::nullopt);
  auto lead = TaskLead::begin(path_, "run train.py");
  ASSERT_TRUE(lead.ok()) << lead.status();
  EXPECT_EQ(*follower.look(), std::nullopt);
}

TEST_F(TaskMeeting, AFirstTaskThatEndsBeforeItsRunEndsTheOthers) {
  TaskFollower follower(path_, "run train.py");
  {
    auto lead = TaskLead::begin(path_, "run train.py");
    ASSERT_TRUE(lead.ok()) << lead.status();
    EXPECT_EQ(*follower.look(), std::nullopt);
  }
  EXPECT_TRUE(absl::IsUnavailable(follower.look().status()));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(TaskMeeting, OtherWordsAreNoTaskOfTheSameStart) {
  auto lead = TaskLead::begin(path_, "run train.py --seed 0");
  ASSERT_TRUE(lead.ok()) << lead.status();
  TaskFollower follower(path_, "run train.py --seed 1");
  EXPECT_THAT(std::string(follower.look().status().message()), HasSubstr("other words"));
}

TEST_F(TaskMeeting, TwoStartsOfOneNameAreNotMixed) {
  auto lead = TaskLead::begin(path_, "run train.py");
  ASSERT_TRUE(lead.ok()) << lead.status();
  EXPECT_TRUE(absl::IsAlreadyExists(TaskLead::begin(path_, "run train.py", {}).status()));
}

}  // namespace
}  // namespace paceline::launch

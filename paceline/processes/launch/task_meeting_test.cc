#include "paceline/processes/launch/task_meeting.h"

#include <chrono>
#include <fstream>
#include <optional>

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

class FirstTask : public TaskMeeting {
 protected:
  using Fate = FirstTaskWatch::Fate;
  void SetUp() override {
    lead_.emplace(*TaskLead::begin(path_, "run train.py"));
    ASSERT_EQ(*follower_.look(), std::nullopt);
  }
  Fate after(std::chrono::milliseconds time) { return watch_.look(follower_, start_ + time); }

  const FirstTaskWatch::SteadyTime start_ = std::chrono::steady_clock::now();
  std::optional<TaskLead> lead_;
  TaskFollower follower_{path_, "run train.py"};
  FirstTaskWatch watch_{start_};
};

TEST_F(FirstTask, IsNotLostAfterItHasEndedWell) {
  using namespace std::chrono_literals;
  ASSERT_TRUE(lead_->say("/runs/one").ok());
  EXPECT_EQ(after(60s), Fate::kWell);
  ASSERT_TRUE(lead_->leave(true).ok());
  EXPECT_EQ(follower_.ended_well(), std::nullopt) << "it is still there";
  lead_.reset();
  EXPECT_THAT(follower_.ended_well(), Optional(true));
  EXPECT_EQ(after(600s), Fate::kWell);
}

TEST_F(FirstTask, FailedSoonAfterItsOwnError) {
  using namespace std::chrono_literals;
  ASSERT_TRUE(lead_->say("/runs/one").ok());
  EXPECT_EQ(after(60s), Fate::kWell);
  ASSERT_TRUE(lead_->leave(false).ok());
  lead_.reset();
  EXPECT_EQ(after(61s), Fate::kWell) << "a worker here may say more";
  EXPECT_EQ(after(63s), Fate::kFailed);
}

TEST_F(FirstTask, IsLostIfItLeavesNoWord) {
  using namespace std::chrono_literals;
  ASSERT_TRUE(lead_->say("/runs/one").ok());
  EXPECT_EQ(after(60s), Fate::kWell);
  lead_.reset();
  EXPECT_EQ(follower_.ended_well(), std::nullopt);
  EXPECT_EQ(after(69s), Fate::kWell);
  EXPECT_EQ(after(71s), Fate::kLost);
}

TEST_F(FirstTask, LeavesNoWordIfNoJobBegan) {
  ASSERT_TRUE(lead_->leave(true).ok());
  lead_.reset();
  EXPECT_TRUE(absl::IsUnavailable(follower_.look().status()));
}

}  // namespace
}  // namespace paceline::launch

// The report of a failed run, and the files that are left of it.
#include "paceline/processes/launch/failed_run.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/test_checkpoint.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;

class FailedRun : public testing::Test {
 protected:
  FailedRun() { fs::create_directories(fs::path(folder()) / "checkpoints"); }

  std::string folder() const { return (runs_ / "job").string(); }
  bool is_there() const { return fs::exists(folder()); }
  void write_checkpoint() const { store::put_checkpoint(folder(), Version(1), 10); }
  std::string told(const absl::Status& error, bool resumed = false, bool logs_say_more = false) const {
    const absl::Status end = end_of_failed(error, folder(), resumed, "paceline train", logs_say_more);
    EXPECT_EQ(end.code(), error.code());
    return std::string(end.message());
  }

  const store::TestDirectory runs_;
  const absl::Status own_error_ = absl::FailedPreconditionError("the data set is empty");
};

TEST(ResumeWith, IsACommandWhateverTheNameOfTheFolder) {
  EXPECT_EQ(resume_with("paceline train", "/runs/job-bsp"),
            "resume with: paceline train --resume /runs/job-bsp");
  EXPECT_EQ(resume_with("paceline train", "/My Drive/job-bsp"),
            "resume with: paceline train --resume '/My Drive/job-bsp'");
  EXPECT_EQ(resume_with("paceline node"), "resume with: paceline node --resume ");
}

TEST_F(FailedRun, RemovesARunThatNeverTrained) {
  EXPECT_FALSE(has_trained(folder()));
  EXPECT_EQ(told(own_error_), "the data set is empty");
  EXPECT_FALSE(is_there());
}

TEST_F(FailedRun, KeepsARunThatCannotBeRead) {
  store::put_bytes(store::RunPaths{folder()}.journal(), "not a journal");
  EXPECT_FALSE(has_trained(folder()));
  told(own_error_);
  EXPECT_TRUE(is_there());
  fs::remove(store::RunPaths{folder()}.journal());
  fs::remove(store::RunPaths{folder()}.checkpoints());
  store::put_bytes(store::RunPaths{folder()}.checkpoints(), "not a folder");
  told(own_error_);
  EXPECT_TRUE(is_there());
}

TEST_F(FailedRun, KeepsARunWhoseLogsMaySayMore) {
  EXPECT_EQ(told(own_error_, false, true), "the data set is empty; logs: " + folder() + "/logs");
  EXPECT_TRUE(is_there());
  // The error names the log already.
  const absl::Status unsaid = with_exit_reason(absl::UnavailableError("see w0.log"), ExitReason::kUnsaid);
  EXPECT_EQ(told(unsaid), "see w0.log");
  EXPECT_TRUE(is_there());
}

TEST_F(FailedRun, KeepsAResumedRun) {
  EXPECT_EQ(told(own_error_, true), "the data set is empty; logs: " + folder() + "/logs");
  EXPECT_TRUE(is_there());
}

TEST_F(FailedRun, SaysHowToResumeFromACheckpoint) {
  write_checkpoint();
  EXPECT_TRUE(has_trained(folder()));
  EXPECT_EQ(told(absl::UnavailableError("server0 was lost")),
            "server0 was lost; resume with: paceline train --resume " + folder());
  EXPECT_EQ(told(absl::InvalidArgumentError("job.toml: no such key")), "job.toml: no such key")
      << "it would fail again";
  EXPECT_TRUE(is_there());
}

TEST_F(FailedRun, OffersNoResumeIfNoCheckpointIsWhole) {
  write_checkpoint();
  const absl::Status damaged =
      with_exit_reason(absl::UnavailableError("start the job anew"), ExitReason::kNothingToResume);
  EXPECT_EQ(told(damaged, true), "start the job anew; logs: " + folder() + "/logs");
  EXPECT_TRUE(is_there());
}

// The bytes of a large checkpoint take minutes to read, and the error has to be told before.
TEST_F(FailedRun, ReadsNoShardToSayHowToResume) {
  write_checkpoint();
  const auto checkpoint = store::latest_checkpoint(folder());
  ASSERT_TRUE(checkpoint.ok());
  fs::remove(store::weights_file(checkpoint->directory, 1, 1));
  EXPECT_EQ(told(absl::UnavailableError("server0 was lost")),
            "server0 was lost; resume with: paceline train --resume " + folder());
}

}  // namespace
}  // namespace paceline::launch

#include "paceline/processes/runs/changed_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/test_checkpoint.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSamples = 100;

class ChangedJobTest : public testing::Test {
 protected:
  ChangedJobTest() {
    std::filesystem::create_directories(run_.checkpoints());
    EXPECT_TRUE(store::atomic_write(run_.job(), "epochs = 2\n").ok());
  }
  void checkpoint(std::int64_t samples) { store::put_checkpoint(run_.root, Version(samples), samples); }
  // Begins another attempt in the journal, which commits `commits` versions.
  void attempt(std::int64_t commits) {
    auto journal = store::Journal::open(run_.journal(), Version(0));
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (std::int64_t i = 1; i <= commits; ++i) {
      control::CommitRecord record;
      record.version = Version(i);
      (*journal)->on_order({}, record);
    }
    ASSERT_TRUE((*journal)->flush().ok());
  }
  std::string job() const { return store::read_file(run_.job(), 1000).value(); }
  std::string said(const std::string& job_toml, std::optional<Version> version = {}) const {
    return std::string(
        check_epochs(config::parse_job(job_toml, "job.toml").value(), run_, kSamples, version).message());
  }

  const store::TestDirectory folder_;
  const store::RunPaths run_{folder_.path()};
};

TEST_F(ChangedJobTest, EpochsReachAsFarAsTheNewestCheckpoint) {
  EXPECT_EQ(said("epochs = 0.5\n"), "") << "there is no checkpoint";
  checkpoint(90);
  checkpoint(151);
  EXPECT_THAT(said("epochs = 1.5\n"),
              HasSubstr("epochs: the run has trained up to epoch 1.51; write 1.51 or"));
  EXPECT_EQ(said("epochs = 1.51\n"), "");
  EXPECT_EQ(said("epochs = 2\n"), "");
  EXPECT_EQ(said("epochs = 1\n", Version(90)), "");
  EXPECT_THAT(said("epochs = 0.5\n", Version(90)), HasSubstr("write 0.9 or more"));
}

TEST_F(ChangedJobTest, IsTakenBackIfNothingIsCommittedWithIt) {
  attempt(3);
  const auto changed = ChangedJob::record(run_, "epochs = 4\n");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(job(), "epochs = 4\n");
  attempt(0);
  EXPECT_TRUE(changed->take_back().value());
  EXPECT_EQ(job(), "epochs = 2\n");
}

TEST_F(ChangedJobTest, StaysOnceAVersionIsCommittedWithIt) {
  const auto changed = ChangedJob::record(run_, "epochs = 4\n");
  ASSERT_TRUE(changed.ok()) << changed.status();
  attempt(1);
  EXPECT_FALSE(changed->take_back().value());
  EXPECT_EQ(job(), "epochs = 4\n");
}

TEST_F(ChangedJobTest, ThatIsTheSameIsNotTakenBack) {
  const auto same = ChangedJob::record(run_, "epochs = 2\n");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_FALSE(same->take_back().value());
}

// Then a damaged journal is here, for example.
TEST_F(ChangedJobTest, StaysIfNobodyKnowsWhatWasCommitted) {
  const auto changed = ChangedJob::record(run_, "epochs = 4\n");
  ASSERT_TRUE(changed.ok()) << changed.status();
  ASSERT_TRUE(store::atomic_write(run_.journal(), "not a journal").ok());
  EXPECT_FALSE(changed->take_back().value());
}

}  // namespace
}  // namespace paceline::runs

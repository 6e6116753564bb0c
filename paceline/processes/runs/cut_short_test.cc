#include "paceline/processes/runs/cut_short.h"

#include <gtest/gtest.h>

#include "paceline/parameters/ps/layout.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/test_checkpoint.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

class CutShort : public ::testing::Test {
 protected:
  // An attempt that committed the versions [from + 1, to].
  std::unique_ptr<store::Journal> attempt(std::int64_t from, std::int64_t to, const std::string& job = "") {
    auto journal = *store::Journal::open(run_.journal(), Version(from));
    EXPECT_TRUE(journal->set(job_key(journal->attempt()), job).ok());
    for (std::int64_t version = from + 1; version <= to; ++version) {
      control::CommitRecord commit;
      commit.version = Version(version);
      commit.why = {"", 0, 0};
      journal->on_order(Time{}, commit);
    }
    return journal;
  }
  void make_checkpoint(std::int64_t version) { store::put_checkpoint(run_.root, Version(version), version); }
  // The newest version of the attempt that was cut short; 0 if none was.
  std::int64_t newest() {
    const auto found = cut_short_attempt(run_);
    EXPECT_TRUE(found.ok()) << found.status();
    return *found ? (*found)->newest.value() : 0;
  }

  const store::TestDirectory folder_;
  const store::RunPaths run_{folder_.path()};
};

TEST_F(CutShort, IsTheLastAttemptThatCommittedAnything) {
  EXPECT_EQ(newest(), 0) << "without a journal";
  attempt(0, 0);
  EXPECT_EQ(newest(), 0);
  attempt(0, 9);
  EXPECT_EQ(newest(), 9);
  attempt(4, 6);
  EXPECT_EQ(newest(), 6);
  attempt(4, 4);
  EXPECT_EQ(newest(), 6);
  *store::Journal::open(run_.journal(), Version(4));  // an attempt that never came to train
  EXPECT_EQ(newest(), 6);
}

TEST_F(CutShort, IsNoneThatSaidWhatItLost) {
  attempt(0, 9);
  {
    const auto journal = attempt(4, 6);
    ASSERT_TRUE(journal->set(lost_commits_key(journal->attempt()), "2").ok());
  }
  make_checkpoint(4);
  attempt(4, 4);
  EXPECT_EQ(newest(), 0);
}

// The journal of a host that keeps a copy of the run may be ahead of its checkpoints.
TEST_F(CutShort, IsOneWhoseRunWentOnFromACheckpointThatIsNotHere) {
  {
    const auto journal = attempt(0, 9);
    ASSERT_TRUE(journal->set(lost_commits_key(journal->attempt()), "0").ok());
  }
  make_checkpoint(4);
  EXPECT_EQ(newest(), 0);
  attempt(9, 9);
  EXPECT_EQ(newest(), 9);
  make_checkpoint(9);
  EXPECT_EQ(newest(), 0);
}

}  // namespace
}  // namespace paceline::runs

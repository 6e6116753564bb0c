#include "paceline/processes/runs/unfinished_run.h"

#include <gtest/gtest.h>

#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/run_mark.h"
#include "paceline/records/store/test_checkpoint.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_formats.h"

namespace paceline::runs {
namespace {

namespace fs = std::filesystem;
constexpr char kAsked[] = "name = \"job\"\n";

// A run as a killed coordinator leaves it, except for its lock, which nobody holds.
store::RunPaths make_run(const fs::path& base, const std::string& name) {
  const store::RunPaths paths{base / name};
  fs::create_directories(paths.checkpoints());
  store::put_bytes(paths.asked(), kAsked);
  store::put_bytes(paths.job(), kAsked);
  store::put_bytes(paths.mark(), "1234\n");
  store::put_checkpoint(paths.root, Version(1), 10);
  return paths;
}

TEST(UnfinishedRun, TheNewestIsFound) {
  const store::TestDirectory runs;
  EXPECT_FALSE(unfinished_run(runs / "none", kAsked));
  EXPECT_FALSE(unfinished_run(runs.path(), kAsked));
  make_run(runs.path(), "job-20260102");
  make_run(runs.path(), "job-20260103");
  make_run(runs.path(), "job-20260101");
  const auto found = unfinished_run(runs.path(), kAsked);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder, (runs / "job-20260103").string());
  EXPECT_EQ(found->leader, Leader{});
  EXPECT_FALSE(is_led(*found));
}

TEST(UnfinishedRun, IsNoFinishedRunAndNoOtherJobs) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job-20260101");
  EXPECT_FALSE(unfinished_run(runs.path(), "name = \"other\"\n"));
  EXPECT_TRUE(may_be_taken_up(*unfinished_run(runs.path(), kAsked)));
  fs::remove_all(paths.checkpoints());
  EXPECT_FALSE(may_be_taken_up(*unfinished_run(runs.path(), kAsked))) << "there is nothing to go on from";
  fs::remove(paths.mark());
  const store::RunPaths ended = make_run(runs.path(), "job-20260102");
  fs::remove(ended.mark());
  EXPECT_FALSE(unfinished_run(runs.path(), kAsked));
}

// The command then says why the run does not go on, and begins no other one.
TEST(UnfinishedRun, OfAnotherVersionIsTakenUp) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job-20260101");
  const fs::path state = store::latest_checkpoint(paths.root)->directory / store::kCheckpointState;
  store::put_bytes(state, store::in_next_format(*store::read_file(state, 1 << 20)));
  EXPECT_TRUE(may_be_taken_up(*unfinished_run(runs.path(), kAsked)));
}

TEST(UnfinishedRun, GoesOnIfItWasStoppedWithItsHost) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job-20260101");
  {
    const auto mark = store::RunMark::leave(paths);
    ASSERT_TRUE(mark.ok() && mark->note_shut_down().ok());
  }
  EXPECT_FALSE(fs::exists(paths.mark()));
  EXPECT_TRUE(any_unfinished_run(runs.path()));
  const auto found = unfinished_run(runs.path(), kAsked);
  ASSERT_TRUE(found);
  EXPECT_TRUE(may_be_taken_up(*found));
  // Another host of the job keeps a folder of its own there.
  fs::create_directories(runs / "job-host1");
  store::put_bytes(store::RunPaths{runs / "job-host1"}.asked(), kAsked);
  EXPECT_TRUE(unfinished_run(runs.path(), kAsked));
  // The run is taken up, and ends.
  EXPECT_TRUE(store::RunMark::leave(paths).ok());
  EXPECT_FALSE(unfinished_run(runs.path(), kAsked));
  EXPECT_FALSE(any_unfinished_run(runs.path()));
}

TEST(UnfinishedRun, DoesNotGoOnOnceTheJobWasBegunAnew) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job-20260101");
  ASSERT_TRUE(store::RunMark::leave(paths)->note_shut_down().ok());
  fs::remove(make_run(runs.path(), "job-20260102").mark());
  EXPECT_FALSE(unfinished_run(runs.path(), kAsked));
}

TEST(UnfinishedRun, IsFoundOnTheHostThatLeadsIt) {
  const store::TestDirectory runs;
  EXPECT_FALSE(any_unfinished_run(runs.path()));
  make_run(runs.path(), "job-20260101");
  const store::RunPaths paths = make_run(runs.path(), "job-20260102");
  ASSERT_TRUE(write_leader(paths, {1, "10.0.0.2:7461"}).ok());
  EXPECT_TRUE(any_unfinished_run(runs.path()));
  const auto held = store::lock_file(paths.lock());
  ASSERT_TRUE(held.ok() && held->has_value());
  const auto found = unfinished_run(runs.path(), kAsked);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder, paths.root.string());
  EXPECT_EQ(found->leader, (Leader{1, "10.0.0.2:7461"}));
  EXPECT_TRUE(is_led(*found));
}

TEST(UnfinishedRun, IsOverOnceAllIsTrainedAndEvaluated) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job");
  const auto over = [&](const std::string& epochs) {
    return is_over(paths.root, config::parse_job("epochs = " + epochs + "\n", "job.toml").value());
  };
  EXPECT_FALSE(over("1")) << "without a journal";
  const auto journal = store::Journal::open(paths.journal(), Version(0)).value();
  ASSERT_TRUE(journal->set(kDatasetSizeKey, "10").ok());
  EXPECT_FALSE(over("1")) << "not evaluated";
  EXPECT_TRUE(over("1\nevaluate.enabled = false")) << "and is not to be";
  journal->on_evaluated({.at = {}, .version = Version(1)});
  ASSERT_TRUE(journal->flush().ok());
  EXPECT_TRUE(over("1"));
  EXPECT_FALSE(over("1.5"));
  EXPECT_FALSE(over("2"));
}

// Only the newest attempt counts: it may have gone on from before the end of an earlier one.
TEST(UnfinishedRun, MayHaveEndedAtItsTargetOrDiverged) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job");
  EXPECT_FALSE(stopped_at_target(paths.root) || has_diverged(paths.root)) << "without a journal";
  const auto end = [&](auto&& write) {
    const auto journal = store::Journal::open(paths.journal(), Version(0)).value();
    write(*journal);
    EXPECT_TRUE(journal->flush().ok());
  };
  end([](store::Journal& journal) {
    journal.on_order(Time{}, control::Finish{"stop", control::FinishCause::kStopped});
  });
  EXPECT_FALSE(stopped_at_target(paths.root));
  end([](store::Journal& journal) {
    journal.on_order(Time{}, control::Finish{"target", control::FinishCause::kTarget});
  });
  EXPECT_TRUE(stopped_at_target(paths.root));
  EXPECT_FALSE(has_diverged(paths.root));
  end([](store::Journal& journal) { EXPECT_TRUE(journal.set(diverged_key(journal.attempt()), "why").ok()); });
  EXPECT_TRUE(has_diverged(paths.root));
  EXPECT_FALSE(stopped_at_target(paths.root));
  end([](store::Journal&) {});
  EXPECT_FALSE(has_diverged(paths.root));
}

TEST(UnfinishedRun, IsLedWhileAProcessUsesIt) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job-20260101");
  store::put_bytes(paths.job(), kAsked);
  {
    const auto used = store::RunFolder::resume(paths.root);
    ASSERT_TRUE(used.ok()) << used.status();
    EXPECT_TRUE(is_led(*unfinished_run(runs.path(), kAsked)));
  }
  EXPECT_FALSE(is_led(*unfinished_run(runs.path(), kAsked)));
}

TEST(UnfinishedRun, IsFoundAfterItsPythonHasMoved) {
  const store::TestDirectory runs;
  const store::RunPaths paths = make_run(runs.path(), "job-20260101");
  store::put_bytes(paths.asked(), "name = \"job\"\n[program]\npython = \"/old\"\n");
  const auto found = unfinished_run(runs.path(), "name = \"job\"\n[program]\npython = \"/new\"\n");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->moved.size(), 1u);
  EXPECT_TRUE(found->moved[0].starts_with("program.python=")) << found->moved[0];
}

TEST(UnfinishedRun, OfAnotherJobWithThisNameIsToldWithWhatDiffers) {
  const store::TestDirectory runs;
  const std::string asked = "name = \"job\"\nepochs = 20\n";
  make_run(runs.path(), "job-20260101");
  const store::RunPaths newest = make_run(runs.path(), "job-20260102");
  const auto other = unfinished_run_of_another_job(runs.path(), "job", asked);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->run.folder, newest.root.string());
  ASSERT_EQ(other->differences.size(), 1u);
  EXPECT_EQ(other->differences[0].in_words(), "epochs = 20, and there (not said)");
  EXPECT_FALSE(unfinished_run_of_another_job(runs.path(), "other", asked));
  EXPECT_FALSE(unfinished_run_of_another_job(runs.path(), "job", kAsked)) << "it is this job";
  fs::remove(newest.mark());
  EXPECT_FALSE(unfinished_run_of_another_job(runs.path(), "job", asked)) << "a newer run has ended";
}

}  // namespace
}  // namespace paceline::runs

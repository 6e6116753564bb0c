// Two halves of a run that went on without each other from some version on, at different speeds.
#include "paceline/records/store/histories.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_copy.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// The folder of one half.
struct Half {
  explicit Half(const fs::path& root) : run{root} { fs::create_directories(run.checkpoints()); }

  static void commit(Journal& journal, std::int64_t version, std::chrono::nanoseconds after) {
    control::CommitRecord commit;
    commit.version = Version(version);
    journal.on_order(Time(std::chrono::seconds(version) + after), commit);
  }
  // Records another attempt from version `from` on; its commit v is at v seconds and `after`.
  void train(std::int64_t from, std::int64_t to, std::chrono::nanoseconds after) const {
    const auto journal = *Journal::open(run.journal(), Version(from));
    for (std::int64_t version = from + 1; version <= to; ++version) commit(*journal, version, after);
    ASSERT_TRUE(journal->flush().ok());
  }
  NamedCheckpoint save(std::int64_t version, std::chrono::nanoseconds after) const {
    CheckpointState state;
    state.controller.version = Version(version);
    state.elapsed = std::chrono::seconds(version) + after;
    state.shards = 1;
    auto writer = CheckpointWriter::begin(run.root, Version(version));
    ps::Layout layout;
    layout.add("w", ps::TensorKind::kParameter, {2});
    EXPECT_TRUE(write_shard(writer->directory(), 1, 1, layout,
                            std::vector<float>(static_cast<std::size_t>(layout.size())), {{}, 0})
                    .ok());
    const fs::path folder = *writer->finish(state, 100);
    return {folder.filename().string(), *checkpoint_identity(folder)};
  }
  // A copy of the journal, made the way another host gets it.
  fs::path sent() const {
    fs::path file = run.root / "sent.sqlite";
    fs::remove(file);
    EXPECT_TRUE((*JournalSnapshot::take(run.journal())).write(file).ok());
    return file;
  }
  std::vector<std::string> checkpoints() const {
    auto names = *names_in(run.checkpoints());
    std::sort(names.begin(), names.end());
    return names;
  }
  bool has_set_aside_journal() const { return fs::exists(run.journal().string() + ".set-aside"); }

  RunPaths run;
};

class HistoriesTest : public ::testing::Test {
 protected:
  // Both halves trained together up to version 10, with a checkpoint of version 5.
  HistoriesTest() {
    for (const Half* half : {&own_, &other_}) {
      half->train(0, 10, kTogether);
      half->save(5, kTogether);
    }
  }

  static constexpr std::chrono::nanoseconds kTogether{0}, kAlone{1};
  const TestDirectory directory_;
  const Half own_{directory_ / "own"}, other_{directory_ / "other"};
};

TEST_F(HistoriesTest, TheHalfThatMadeLessLosesNothing) {
  own_.train(5, 12, kAlone);
  own_.save(11, kAlone);
  other_.train(5, 30, kTogether);
  const NamedCheckpoint newest = other_.save(30, kTogether);
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), newest).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005", "v000000000011.set-aside"));
  EXPECT_TRUE(own_.has_set_aside_journal());
  EXPECT_FALSE(fs::exists(own_.run.journal()));
  EXPECT_FALSE(*make_way_for(own_.run.root, newest)) << "it has to be fetched";
}

TEST_F(HistoriesTest, TheHalfThatMadeMoreLosesNothing) {
  own_.train(5, 30, kAlone);
  own_.save(30, kAlone);
  other_.train(5, 12, kTogether);
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), other_.save(12, kTogether)).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005", "v000000000030.set-aside"));
  EXPECT_TRUE(own_.has_set_aside_journal());
}

TEST_F(HistoriesTest, CheckpointsOfTheSameNameAreToldApart) {
  own_.train(5, 12, kAlone);
  own_.save(12, kAlone);
  other_.train(5, 12, kTogether);
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), other_.save(12, kTogether)).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005", "v000000000012.set-aside"));
}

// This half was away for a while and committed nothing of its own: nothing is set aside.
TEST_F(HistoriesTest, ACopyOfTheSameHistoryStays) {
  other_.train(10, 20, kTogether);
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), other_.save(15, kTogether)).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005"));
  EXPECT_FALSE(own_.has_set_aside_journal());
  EXPECT_TRUE(fs::exists(own_.run.journal()));
}

// The other half went back from version 10 to version 5 meanwhile: the journal has both attempts, and the
// first does not count.
TEST_F(HistoriesTest, AnAttemptThatDoesNotCountAnyMoreIsLeft) {
  own_.save(8, kTogether);
  other_.train(5, 7, kAlone);
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), NamedCheckpoint{"v000000000009", 0}).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005", "v000000000008.set-aside"));
  EXPECT_FALSE(own_.has_set_aside_journal()) << "the other one has all of it";
}

TEST_F(HistoriesTest, SetsAsideWhatCannotBeRead) {
  ASSERT_TRUE(atomic_write(own_.run.checkpoints() / "v000000000005" / kCheckpointState, "{}").ok());
  ASSERT_TRUE(atomic_write(own_.run.journal(), "no journal").ok());
  own_.save(0, kTogether);
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), other_.save(9, kTogether)).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000000", "v000000000005.set-aside"));
  EXPECT_TRUE(own_.has_set_aside_journal());
}

// A file that is no journal causes no change here.
TEST_F(HistoriesTest, RefusesAFileThatIsNoJournal) {
  ASSERT_TRUE(atomic_write(directory_ / "sent", std::string(10'000, 'x')).ok());
  EXPECT_FALSE(leave_own_history(own_.run, directory_ / "sent", std::nullopt).ok());
  for (const char* name : {"", "..", "v2", "../v000000000002"}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(leave_own_history(own_.run, other_.sent(), NamedCheckpoint{name, 0})));
    EXPECT_TRUE(absl::IsInvalidArgument(make_way_for(own_.run.root, {name, 0}).status()));
  }
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005"));
  EXPECT_TRUE(fs::exists(own_.run.journal()));
}

TEST_F(HistoriesTest, AHistoryWithoutCheckpointsLeavesNone) {
  ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), std::nullopt).ok());
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005.set-aside"));
}

TEST_F(HistoriesTest, ANewerCheckpointMakesWay) {
  const NamedCheckpoint six = own_.save(6, kTogether), seven = own_.save(7, kTogether);
  EXPECT_NE(six.identity, seven.identity);
  EXPECT_TRUE(*make_way_for(own_.run.root, six));
  EXPECT_THAT(own_.checkpoints(), ElementsAre("v000000000005", "v000000000006", "v000000000007.set-aside"));
  EXPECT_TRUE(*make_way_for(own_.run.root, six));
  EXPECT_FALSE(*make_way_for(own_.run.root, {six.name, six.identity + 1}));
  EXPECT_FALSE(*make_way_for(own_.run.root, six)) << "it is not there any more";
  EXPECT_THAT(own_.checkpoints(),
              ElementsAre("v000000000005", "v000000000006.set-aside", "v000000000007.set-aside"));
}

// A killed process leaves its latest events in a second file beside the journal.
TEST_F(HistoriesTest, AJournalIsSetAsideWithAllThatBelongsToIt) {
  const fs::path journal = own_.run.journal(), aside = journal.string() + ".set-aside";
  const fs::path killed = directory_ / "killed";
  fs::create_directory(killed);
  {
    const auto open = *Journal::open(journal, Version(10));
    Half::commit(*open, 11, kAlone);
    ASSERT_TRUE(open->flush().ok());
    for (const char* part : {"", "-wal"})
      fs::copy(journal.string() + part, killed / (std::string("j") + part));
  }
  for (int n = 0; n < 2; ++n) {
    for (const char* part : {"", "-wal"})
      fs::copy(killed / (std::string("j") + part), journal.string() + part,
               fs::copy_options::overwrite_existing);
    ASSERT_TRUE(leave_own_history(own_.run, other_.sent(), std::nullopt).ok());
  }
  for (const fs::path& one : {aside, fs::path(aside.string() + "-2")}) {
    std::vector<Version> commits;
    ASSERT_TRUE(JournalReader::open(one)
                    ->commits([&](Time, const auto& commit) { commits.push_back(commit.version); })
                    .ok());
    EXPECT_EQ(commits.size(), 11u) << one;
  }
}

}  // namespace
}  // namespace paceline::store

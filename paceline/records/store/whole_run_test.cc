// A run that was resumed, told as one: what was done again is left out, and listeners see that replicas join
// before they do anything.
#include "paceline/records/store/whole_run.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

using namespace control;

Event joined(std::int64_t ns, int replica, const std::string& name) {
  return Fact{at(ns), ReplicaJoined{ReplicaId(replica), name, 8}};
}
Event left(std::int64_t ns, int replica, const std::string& why) {
  return Fact{at(ns), ReplicaLeft{ReplicaId(replica), why}};
}
Event ready(std::int64_t ns, int replica, std::int64_t clock) {
  return Fact{at(ns), ReplicaReady{ReplicaId(replica), Clock(clock), Version(0), Duration(1), 0.5}};
}
Event commit(std::int64_t ns, std::int64_t version, int replica) {
  CommitRecord record;
  record.version = Version(version);
  record.members = {{ReplicaId(replica), Clock(version), Version(0), {0, 0, 8}, 1, 1}};
  record.why = {"", 0, 0};
  return std::pair(at(ns), Order(record));
}
Event release(std::int64_t ns, int replica) {
  return std::pair(at(ns), Order(Release{ReplicaId(replica), Clock(1), Version(0), {0, 0, 8}, {"", 0, 0}}));
}
Event park(std::int64_t ns, int replica) { return std::pair(at(ns), Order(Park{ReplicaId(replica)})); }
Event evaluated(std::int64_t ns, std::int64_t version) {
  return Evaluated{at(ns), Version(version), 0, 1, 0.5};
}

class WholeRunTest : public ::testing::Test {
 protected:
  void record(std::int64_t from, const std::vector<Event>& events) {
    auto journal = Journal::open(path_, Version(from));
    ASSERT_TRUE(journal.ok()) << journal.status();
    tell(events, **journal);
  }
  absl::Status replay(RunListener& listener) {
    auto reader = JournalReader::open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return replay_whole_run(*reader, listener);
  }
  std::vector<std::string> replayed() {
    Recorder recorder;
    const absl::Status status = replay(recorder);
    EXPECT_TRUE(status.ok()) << status;
    return recorder.lines;
  }

  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "journal.sqlite";
};

TEST_F(WholeRunTest, ARunThatWasNotResumedIsToldAsItWas) {
  const auto events = controller_events("dssp:3-15", 5'000);
  record(0, events);
  EXPECT_EQ(replayed(), describe(events));
}

TEST_F(WholeRunTest, AnAttemptEndsWhereTheNextBegins) {
  record(0, {joined(0, 0, "w0"), joined(0, 1, "w1"), ready(5, 1, 1), commit(5, 1, 1), release(5, 1),
             ready(6, 0, 1), commit(6, 2, 0), release(6, 0), evaluated(5, 1), ready(7, 1, 2), commit(7, 3, 1),
             evaluated(6, 2), evaluated(7, 3), left(8, 0, "its process ended"),
             std::pair(at(9), Order(Finish{"interrupted"}))});
  record(2, {joined(6, 0, "w0"), joined(6, 1, "w1"), ready(9, 0, 2), commit(9, 3, 0), evaluated(9, 3)});
  const std::string why = "the run was resumed from version 2";
  EXPECT_EQ(replayed(), describe(std::vector<Event>{
                            joined(0, 0, "w0"), joined(0, 1, "w1"), ready(5, 1, 1), commit(5, 1, 1),
                            release(5, 1), ready(6, 0, 1), commit(6, 2, 0), evaluated(5, 1), evaluated(6, 2),
                            left(6, 0, why), left(6, 1, why), joined(6, 0, "w0"), joined(6, 1, "w1"),
                            ready(9, 0, 2), commit(9, 3, 0), evaluated(9, 3)}));
}

TEST_F(WholeRunTest, APlaceKeepsItsReplicaAndAStrangerGetsANewOne) {
  // w0 was lost, replica 2 took its place; then the run was resumed, with the places' own numbers again.
  record(0, {joined(0, 0, "w0"), joined(0, 1, "w1"), left(1, 0, "lost"), joined(2, 2, "w0"), ready(3, 2, 1),
             commit(3, 1, 2)});
  record(1, {joined(4, 0, "w0"), joined(4, 1, "w1"), left(5, 1, "lost"), joined(6, 2, "w1"), park(6, 2),
             commit(7, 2, 0)});
  const std::string why = "the run was resumed from version 1";
  EXPECT_EQ(replayed(),
            describe(std::vector<Event>{
                joined(0, 0, "w0"), joined(0, 1, "w1"), left(1, 0, "lost"), joined(2, 2, "w0"),
                ready(3, 2, 1), commit(3, 1, 2), left(3, 1, why), left(3, 2, why), joined(4, 2, "w0"),
                joined(4, 1, "w1"), left(5, 1, "lost"), joined(6, 3, "w1"), park(6, 3), commit(7, 2, 2)}));
}

TEST_F(WholeRunTest, AnAttemptThatNothingWasBuiltUponIsLeftOut) {
  record(0, {joined(0, 0, "w0"), commit(1, 1, 0), commit(2, 2, 0)});
  record(2, {joined(2, 0, "w0"), commit(3, 3, 0), evaluated(3, 3)});  // killed before another checkpoint
  record(2, {joined(2, 0, "w0"), commit(4, 3, 0), commit(5, 4, 0)});
  record(1, {joined(1, 0, "w0"), commit(6, 2, 0)});  // an older version: voids more than one attempt
  EXPECT_EQ(replayed(), describe(std::vector<Event>{joined(0, 0, "w0"), commit(1, 1, 0),
                                                    left(0, 0, "the run was resumed from version 1"),
                                                    joined(1, 0, "w0"), commit(6, 2, 0)}));
}

TEST_F(WholeRunTest, AReplicaThatNeverJoinedIsDamage) {
  record(0, {joined(0, 0, "w0"), ready(1, 7, 1)});
  Recorder recorder;
  EXPECT_TRUE(absl::IsDataLoss(replay(recorder)));
  EXPECT_EQ(recorder.lines.size(), 1u);
}

// Collects the versions of the commits, and checks that each replica joined before it did something.
struct Checker final : RunListener {
  std::vector<std::int64_t> versions;
  std::map<ReplicaId, bool> here;
  Time latest{};

  void on_fact(const Fact& fact) override {
    EXPECT_GE(fact.at, latest);
    latest = fact.at;
    if (const auto* one = std::get_if<ReplicaJoined>(&fact.what)) {
      EXPECT_FALSE(here[one->replica]);
      here[one->replica] = true;
    }
    if (const auto* one = std::get_if<ReplicaLeft>(&fact.what)) {
      EXPECT_TRUE(here[one->replica]);
      here[one->replica] = false;
    }
    if (const auto* one = std::get_if<ReplicaReady>(&fact.what)) {
      EXPECT_TRUE(here[one->replica]);
    }
  }
  void on_order(Time, const Order& order) override {
    if (const auto* one = std::get_if<CommitRecord>(&order)) versions.push_back(one->version.value());
  }
  void on_evaluated(const Evaluated&) override {}
};

// However often the run was resumed, and from whichever version: the commits are those of the view
// kept_commits.
TEST_F(WholeRunTest, TellsTheCommitsThatAreKept) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Rng rng(seed);
    std::filesystem::remove(path_);
    std::int64_t newest = 0;  // version n is committed at time n
    for (std::uint64_t attempt = 0; attempt < 5; ++attempt) {
      const auto from = attempt == 0 ? 0 : static_cast<std::int64_t>(rng.below(newest + 1));
      std::vector<Event> events;
      for (int replica = 0; replica < 3; ++replica)
        events.push_back(joined(from, replica, "w" + std::to_string(replica)));
      newest = from;
      for (std::uint64_t commits = rng.below(6); commits > 0; --commits) {
        const auto who = static_cast<int>(rng.below(3));
        ++newest;
        events.push_back(ready(newest, who, newest));
        events.push_back(commit(newest, newest, who));
      }
      record(from, events);
    }
    Checker checker;
    ASSERT_TRUE(replay(checker).ok());
    const auto database = Database::open(path_, Database::Mode::kRead);
    auto rows = database->prepare("SELECT version FROM kept_commits ORDER BY seq");
    ASSERT_TRUE(rows.ok() && rows->start().ok());
    std::vector<std::int64_t> kept;
    while (*rows->next()) kept.push_back(rows->integer(0));
    EXPECT_EQ(checker.versions, kept) << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::store

#include "paceline/records/store/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/control/replay.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/sqlite.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

using ::testing::ElementsAre;

class JournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<Journal> open(std::int64_t from = 0) {
    auto journal = Journal::open(path_, Version(from));
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  std::vector<std::string> replay(std::int64_t attempt = JournalReader::kAllAttempts) {
    auto reader = JournalReader::open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    Recorder recorder;
    const absl::Status status = reader->replay(recorder, attempt);
    EXPECT_TRUE(status.ok()) << status;
    return recorder.lines;
  }

  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "journal.sqlite";
};

TEST_F(JournalTest, EveryKindOfEventComesBack) {
  tell(every_kind_of_event(), *open());
  EXPECT_EQ(replay(), describe(every_kind_of_event()));
}

TEST_F(JournalTest, ARunOfAControllerComesBack) {
  for (const char* policy : {"bsp", "asp", "dssp:3-15"}) {
    const auto events = controller_events(policy, 20'000);
    const auto journal = open();
    tell(events, *journal);
    ASSERT_TRUE(journal->flush().ok());
    EXPECT_EQ(replay(journal->attempt()), describe(events)) << policy;
  }
}

// The journal has everything on which the orders of a Controller depend.
TEST_F(JournalTest, AControllerOrdersTheSameAgain) {
  for (const std::int64_t ahead : {0, 3}) {
    for (const char* policy : {"bsp", "asp", "dssp:3-15"}) {
      const auto journal = open();
      tell(controller_events(policy, 20'000, ahead), *journal);
      ASSERT_TRUE(journal->flush().ok());
      auto replay = control::Replay::make(controller_config(20'000, ahead),
                                          policy::make_policy(*policy::parse_policy(policy)), std::nullopt);
      ASSERT_TRUE(replay.ok());
      ASSERT_TRUE(JournalReader::open(path_)->replay(**replay, journal->attempt()).ok());
      EXPECT_EQ((*replay)->difference(), std::nullopt) << policy << ", " << ahead << " ahead";
      EXPECT_GT((*replay)->orders(), 3000);
    }
  }
}

bool is_fact(const Event& event) { return std::holds_alternative<control::Fact>(event); }
bool is_evaluation(const Event& event) { return std::holds_alternative<control::Evaluated>(event); }
bool is_commit(const Event& event) {
  const auto* order = std::get_if<std::pair<Time, control::Order>>(&event);
  return order != nullptr && std::holds_alternative<control::CommitRecord>(order->second);
}

std::vector<Event> only(bool (*kind)(const Event&)) {
  std::vector<Event> events = every_kind_of_event();
  std::erase_if(events, [&](const Event& event) { return !kind(event); });
  return events;
}

TEST_F(JournalTest, ShowsFlushedEventsWhileTheRunGoesOn) {
  const auto events = every_kind_of_event();
  const auto journal = open();
  EXPECT_TRUE(replay().empty());
  tell(events[0], *journal);
  EXPECT_TRUE(replay().empty());
  ASSERT_TRUE(journal->flush().ok());
  EXPECT_EQ(replay().size(), 1u);
  EXPECT_TRUE(journal->flush().ok());
}

TEST_F(JournalTest, AResumedRunIsAnotherAttempt) {
  const auto events = every_kind_of_event();
  tell(events, *open());
  const Event commit = only(is_commit).front();
  tell({events[0], commit}, *open(1));
  auto reader = JournalReader::open(path_);
  const auto attempts = reader->attempts();
  ASSERT_EQ(attempts->size(), 2u);
  EXPECT_EQ(attempts->at(1).number, 2);
  EXPECT_EQ(attempts->at(1).from, Version(1));
  EXPECT_EQ(replay(1), describe(events));
  EXPECT_EQ(replay(2), describe(std::vector<Event>{events[0], commit}));
  EXPECT_EQ(replay().size(), events.size() + 2);
}

TEST_F(JournalTest, CommitsThatWereDoneAgainAreVoid) {
  tell(every_kind_of_event(), *open());
  tell(only(is_commit).back(), *open(1));
  const auto database = Database::open(path_, Database::Mode::kRead);
  auto rows = database->prepare("SELECT group_concat(version || '/' || attempt, ' ') FROM kept_commits");
  ASSERT_TRUE(rows.ok() && rows->start().ok() && rows->next().ok());
  EXPECT_EQ(rows->text(0), "1/1 2/2");
}

// The servers of a lost attempt may still have more than the checkpoint.
TEST_F(JournalTest, AttemptsThatCommittedNothingMayGoOnFromElsewhereAfterAll) {
  const std::vector<Event> commits = only(is_commit);
  EXPECT_FALSE(open()->before());
  tell(commits, *open());
  open(1);
  const auto journal = open(1);
  ASSERT_TRUE(journal->before());
  EXPECT_EQ(journal->before()->attempt, 2);
  const auto& last = std::get<control::CommitRecord>(std::get<1>(commits.back()).second);
  EXPECT_EQ(journal->before()->version, last.version);
  const auto starts = [&] {
    std::vector<std::int64_t> from;
    const auto attempts = JournalReader::open(path_)->attempts();
    for (const Attempt& one : *attempts) from.push_back(one.from.value());
    return from;
  };
  EXPECT_THAT(starts(), ElementsAre(0, 0, 1, 1));
  ASSERT_TRUE(journal->go_on_from(Version(7)).ok());
  EXPECT_THAT(starts(), ElementsAre(0, 0, 7, 7));
  EXPECT_EQ(journal->before()->followed_from, Version(1));
  tell(commits, *journal);
  ASSERT_TRUE(journal->go_on_from(Version(9)).ok());
  EXPECT_THAT(starts(), ElementsAre(0, 0, 7, 7));
}

TEST_F(JournalTest, EachKindCanBeReadAlone) {
  tell(every_kind_of_event(), *open());
  auto reader = JournalReader::open(path_);
  std::vector<Event> facts, commits, evaluations;
  ASSERT_TRUE(reader->facts([&](const auto& fact) { facts.emplace_back(fact); }).ok());
  ASSERT_TRUE(reader
                  ->commits([&](Time at, const auto& commit) {
                    commits.emplace_back(std::pair(at, control::Order(commit)));
                  })
                  .ok());
  ASSERT_TRUE(reader->evaluations([&](const auto& evaluated) { evaluations.emplace_back(evaluated); }).ok());
  EXPECT_EQ(describe(facts), describe(only(is_fact)));
  EXPECT_EQ(describe(commits), describe(only(is_commit)));
  EXPECT_EQ(describe(evaluations), describe(only(is_evaluation)));
}

TEST_F(JournalTest, ReasonsLiveAsLongAsTheReader) {
  tell(every_kind_of_event(), *open());
  auto reader = JournalReader::open(path_);
  std::vector<control::CommitRecord> kept;
  ASSERT_TRUE(reader->commits([&](Time, const auto& commit) { kept.push_back(commit); }).ok());
  auto moved = *std::move(reader);
  EXPECT_EQ(to_string(kept[0].why), "all 2 of 3 are ready");
}

TEST_F(JournalTest, KeepsFactsAboutTheRun) {
  {
    const auto journal = open();
    ASSERT_TRUE(journal->set("policy", "bsp").ok());
    ASSERT_TRUE(journal->set("policy", "asp").ok());
    ASSERT_TRUE(journal->set("config", "").ok());
  }
  EXPECT_THAT(
      *JournalReader::open(path_)->run(),
      ElementsAre(std::pair("config", ""), std::pair("format_version", "8"), std::pair("policy", "asp")));
}

TEST_F(JournalTest, ReturnsTheValueOfAKey) {
  const auto journal = open();
  EXPECT_EQ(*journal->get("key"), std::nullopt);
  ASSERT_TRUE(journal->set("key", "value").ok());
  EXPECT_EQ(*journal->get("key"), "value");
}

TEST_F(JournalTest, AClosedJournalIsOneFile) {
  tell(every_kind_of_event(), *open());
  EXPECT_EQ(directory_.count(), 1);
  // Byte 18 of an SQLite file: 2 would make every reader write files beside it.
  EXPECT_EQ(read_file(path_, 1 << 20)->at(18), 1);
}

// A reader without the right to write cannot undo a half-written transaction, and a run that goes on reads
// first.
TEST_F(JournalTest, AReaderUndoesWhatAKilledWriterLeftHalfWritten) {
  const auto writing = directory_ / "writing.sqlite", killed = directory_ / "killed.sqlite";
  const Database writer = Database::open(writing, Database::Mode::kWrite).value();
  ASSERT_TRUE(writer.execute("CREATE TABLE t(x); INSERT INTO t VALUES(1); PRAGMA cache_size = 4").ok());
  // This is more than fits into SQLite's memory, so it has to change the file.
  ASSERT_TRUE(writer
                  .execute("BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                           "10000) INSERT INTO t SELECT randomblob(100) FROM n")
                  .ok());
  // Copies the files in the state in which a writer killed now leaves them.
  std::filesystem::copy(writing, killed);
  std::filesystem::copy(writing.string() + "-journal", killed.string() + "-journal");
  const auto reader = Database::open(killed, Database::Mode::kRead);
  ASSERT_TRUE(reader.ok()) << reader.status();
  auto rows = reader->prepare("SELECT count(*) FROM t");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE(rows->start().ok() && *rows->next());
  EXPECT_EQ(rows->integer(0), 1);
}

TEST_F(JournalTest, AReaderDoesNotHoldUpTheWriter) {
  tell(every_kind_of_event(), *open());
  auto reader = JournalReader::open(path_);
  const auto journal = open(1);
  ASSERT_TRUE(reader
                  ->facts([&](const control::Fact& fact) {
                    journal->on_fact(fact);
                    ASSERT_TRUE(journal->flush().ok()) << journal->status();
                  })
                  .ok());
  EXPECT_EQ(replay(2).size(), only(is_fact).size());
}

TEST_F(JournalTest, OtherFilesAreRefusedAndLeftAlone) {
  EXPECT_TRUE(absl::IsNotFound(JournalReader::open(path_).status()));
  ASSERT_TRUE(atomic_write(path_, std::string(5000, 'x')).ok());
  EXPECT_TRUE(absl::IsDataLoss(JournalReader::open(path_).status()));
  EXPECT_TRUE(absl::IsDataLoss(Journal::open(path_, Version(0)).status()));
  EXPECT_EQ(*read_file(path_, 10000), std::string(5000, 'x'));

  const auto other = directory_ / "other.sqlite";
  {
    const auto database = Database::open(other, Database::Mode::kWrite);
    ASSERT_TRUE(database->execute("CREATE TABLE mine(a)").ok());
  }
  const std::string before = *read_file(other, 100000);
  EXPECT_TRUE(absl::IsFailedPrecondition(Journal::open(other, Version(0)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(JournalReader::open(other).status()));
  EXPECT_EQ(*read_file(other, 100000), before);
}

TEST_F(JournalTest, AnotherFormatIsRefused) {
  ASSERT_TRUE(open()->set("format_version", "9").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Journal::open(path_, Version(0)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(JournalReader::open(path_).status()));
}

// A journal without loading times and without a cause in a column can be read and continued.
TEST_F(JournalTest, TheFormatBeforeIsRead) {
  using control::Finish, control::FinishCause;
  const auto finish = [](const char* why, FinishCause cause) {
    return Event(std::pair(Time{}, control::Order(Finish{why, cause})));
  };
  const control::ReplicaReady bare{ReplicaId(1), Clock(1), Version(0), Duration(9), 2.5};
  control::ReplicaReady full = bare;
  full.loading = Duration(2);
  full.pulling = Duration(3);
  const std::vector<Event> finishes{finish("every sample is committed", FinishCause::kEverySample),
                                    finish("the target is reached", FinishCause::kTarget),
                                    finish("every sample but one", FinishCause::kStopped)};
  {
    const auto journal = open();
    tell(control::Fact{Time{}, full}, *journal);
    tell(finishes, *journal);
  }
  {
    const auto old = Database::open(path_, Database::Mode::kWrite);
    ASSERT_TRUE(
        old->execute("ALTER TABLE facts DROP COLUMN loading_ns; ALTER TABLE facts DROP COLUMN pulling_ns; "
                     "ALTER TABLE facts DROP COLUMN cause; ALTER TABLE other_orders DROP COLUMN cause; "
                     "DROP TABLE side_work; DROP TABLE processes; DROP TABLE traffic; "
                     "UPDATE run SET value = '7' WHERE key = 'format_version'")
            .ok());
  }
  std::vector<Event> before{control::Fact{Time{}, bare}};
  before.insert(before.end(), finishes.begin(), finishes.end());
  EXPECT_EQ(replay(), describe(before));
  EXPECT_EQ(JournalReader::open(path_)->finish()->value().cause, FinishCause::kStopped);
  tell(every_kind_of_event(), *open());
  EXPECT_EQ(replay(1), describe(before));
  EXPECT_EQ(replay(2), describe(every_kind_of_event()));
}

TEST_F(JournalTest, KeepsLatestReportsOfProcessesAndAddsUpTheirTraffic) {
  const auto say = [](Journal& journal, std::int64_t resident, std::int64_t gradients) {
    journal.note_process({Time(Duration(resident)),
                          "server0",
                          resident,
                          {{"server1", "gradients", gradients}, {"server1", "weights", 1}}});
  };
  const auto gradients = [&] {
    const auto all = JournalReader::open(path_)->processes();
    EXPECT_EQ(all->size(), 1u);
    EXPECT_EQ(all->front().process, "server0");
    EXPECT_EQ(all->front().at, Time(Duration(all->front().resident_bytes)));
    EXPECT_EQ(all->front().sent.at(1).kind, "weights");
    return std::pair(all->front().resident_bytes, all->front().sent.at(0).bytes);
  };
  {
    const auto journal = open();
    say(*journal, 7, 100);
    say(*journal, 5, 150);
    ASSERT_TRUE(journal->flush().ok());
    EXPECT_EQ(gradients(), std::pair(std::int64_t{5}, std::int64_t{150}));
    say(*journal, 6, 10);  // another session, which counts from 0
    say(*journal, 6, 30);
  }
  EXPECT_EQ(gradients().second, 180);
  say(*open(), 6, 40);
  EXPECT_EQ(gradients().second, 220) << "another attempt goes on from there";
  EXPECT_TRUE(replay().empty());
}

TEST_F(JournalTest, KeepsTheLengthsOfShardsSinceTheRunWasBegunFromTheStart) {
  const auto lengths = [&] { return *JournalReader::open(path_)->shard_lengths(); };
  using Lengths = std::vector<coordinator::ShardRecords>;
  const Lengths first{{7, 20}, {8, 15}}, more{{9, 3}}, second{{8, 16}};
  const auto journal_from = [&](std::int64_t from) { return *Journal::open(path_, Version(from)); };
  {
    const auto journal = journal_from(0);
    journal->note_shard_lengths(first);
    ASSERT_TRUE(journal->flush().ok());
    EXPECT_EQ(lengths(), first);
  }
  journal_from(5)->note_shard_lengths(more);
  EXPECT_EQ(lengths(), (Lengths{{7, 20}, {8, 15}, {9, 3}}));
  journal_from(0)->note_shard_lengths(second);
  EXPECT_EQ(lengths(), second) << "the run was begun again, and other shards may be there";
  EXPECT_TRUE(replay().empty());
}

TEST_F(JournalTest, TheFirstErrorStaysAndNothingFollowsIt) {
  const auto events = every_kind_of_event();
  const auto journal = open();
  tell(events[0], *journal);
  ASSERT_TRUE(journal->flush().ok());
  ASSERT_TRUE(Database::open(path_, Database::Mode::kWrite)->execute("DROP TABLE evaluations").ok());
  tell(only(is_evaluation).front(), *journal);
  const absl::Status first = journal->status();
  EXPECT_THAT(std::string(first.message()),
              ::testing::HasSubstr(path_.string() + ": no such table: evaluations"));
  tell(events[1], *journal);
  EXPECT_EQ(journal->flush(), first);
  EXPECT_EQ(journal->flush(), first);
  // The journal holds nothing locked after its error.
  EXPECT_TRUE(Database::open(path_, Database::Mode::kWrite)->execute("DELETE FROM attempts").ok());
  int facts = 0;
  ASSERT_TRUE(JournalReader::open(path_)->facts([&](const auto&) { ++facts; }).ok());
  EXPECT_EQ(facts, 1);
}

}  // namespace
}  // namespace paceline::store

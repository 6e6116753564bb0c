#include "paceline/records/store/journal_copy.h"

#include <sqlite3.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Every row of every table.
std::string rows_of(const fs::path& file) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open_v2(file.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  const auto add = [](void* text, int count, char** values, char**) {
    for (int i = 0; i < count; ++i)
      *static_cast<std::string*>(text) += fmt::format("{}|", values[i] ? values[i] : "NULL");
    *static_cast<std::string*>(text) += '\n';
    return 0;
  };
  std::string rows;
  for (const char* table :
       {"run", "attempts", "facts", "commits", "members", "releases", "other_orders", "evaluations", "plans",
        "batches", "side_work", "processes", "traffic", "shard_lengths", "first_events"}) {
    rows += fmt::format("{}:\n", table);
    EXPECT_EQ(sqlite3_exec(database, fmt::format("SELECT * FROM {}", table).c_str(), add, &rows, nullptr),
              SQLITE_OK);
  }
  sqlite3_close(database);
  return rows;
}

class JournalCopyTest : public ::testing::Test {
 protected:
  std::unique_ptr<Journal> open(std::int64_t from = 0) {
    return *Journal::open(path_, Version(from), PowerLoss::kNothing, true);
  }
  JournalCopy begin() {
    EXPECT_TRUE((*JournalSnapshot::take(path_)).write(copy_).ok());
    auto copy = JournalCopy::open(copy_);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return *std::move(copy);
  }
  static absl::Status hand(Journal& from, JournalCopy& to) {
    EXPECT_TRUE(from.flush().ok());
    return to.apply(from.take_log());
  }

  const TestDirectory directory_;
  const fs::path path_ = directory_ / "journal.sqlite";
  const fs::path copy_ = directory_ / "copy.sqlite";
};

TEST_F(JournalCopyTest, HasEveryRowBitForBit) {
  auto journal = open();
  tell(every_kind_of_event(), *journal);
  ASSERT_TRUE(journal->flush().ok());
  journal->take_log();
  JournalCopy copy = begin();
  const auto events = controller_events("dssp:3-15", 3'000);
  std::size_t told = 0;
  for (const Event& event : events) {
    tell(event, *journal);
    if (++told % 37 == 0) {
      ASSERT_TRUE(hand(*journal, copy).ok());
    }
  }
  journal->note_process({at(5), "w\"0", 1234, {{"server0", "gradients", 77}}});
  journal->note_shard_lengths({{7, 20}});
  ASSERT_TRUE(journal->set("a key", "it's a value\n").ok());
  ASSERT_TRUE(journal->outlasting([&] { return journal->go_on_from(Version(0)); }).ok());
  ASSERT_TRUE(hand(*journal, copy).ok());
  EXPECT_EQ(rows_of(copy_), rows_of(path_));
  Recorder here;
  Recorder there;
  ASSERT_TRUE(JournalReader::open(path_)->replay(here, JournalReader::kAllAttempts).ok());
  ASSERT_TRUE(JournalReader::open(copy_)->replay(there, JournalReader::kAllAttempts).ok());
  EXPECT_EQ(here.lines, there.lines);
}

// The snapshot shows the moment at which it was taken, whenever it is written.
TEST_F(JournalCopyTest, ASnapshotDoesNotMoveOn) {
  auto journal = open();
  ASSERT_TRUE(journal->set("key", "before").ok());
  auto snapshot = JournalSnapshot::take(path_);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  ASSERT_TRUE(journal->set("key", "after").ok());
  ASSERT_TRUE((*std::move(snapshot)).write(copy_).ok());
  EXPECT_THAT(rows_of(copy_), HasSubstr("key|before|"));
}

TEST_F(JournalCopyTest, ASnapshotIsWrittenInPortions) {
  auto journal = open();
  ASSERT_TRUE(journal->set("key", std::string(40 << 20, 'x')).ok() && journal->flush().ok());
  int portions = 0;
  const absl::Status given_up =
      (*JournalSnapshot::take(path_)).write(directory_ / "part.sqlite", [&] { return ++portions < 2; });
  EXPECT_TRUE(absl::IsCancelled(given_up)) << given_up;
  EXPECT_EQ(portions, 2);
  ASSERT_TRUE((*JournalSnapshot::take(path_)).write(copy_, [&] { return ++portions > 0; }).ok());
  EXPECT_EQ(portions, 4);
  EXPECT_EQ(rows_of(copy_), rows_of(path_));
}

// A new leader continues the copy in the same way as the journal itself.
TEST_F(JournalCopyTest, ItsHolderMayGoOnInIt) {
  auto journal = open();
  const auto events = controller_events("bsp", 3'000);
  {
    JournalCopy copy = begin();
    journal->take_log();
    tell(events, *journal);
    ASSERT_TRUE(hand(*journal, copy).ok());
  }
  const auto next = Journal::open(copy_, Version(3), PowerLoss::kNothing);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->attempt(), 2);
  ASSERT_TRUE((*next)->before().has_value());
  EXPECT_EQ((*next)->before()->attempt, 1);
}

TEST_F(JournalCopyTest, NothingIsDoneButToChangeRows) {
  open();
  JournalCopy copy = begin();
  const std::string before = rows_of(copy_);
  const fs::path elsewhere = directory_ / "elsewhere";
  for (const std::string& sql : std::vector<std::string>{
           fmt::format("ATTACH '{}' AS other", elsewhere.string()), "PRAGMA writable_schema = 1",
           "DROP TABLE facts", "CREATE TABLE mine(x)", "DELETE FROM sqlite_schema",
           "SELECT load_extension('x')", "nonsense", fmt::format("VACUUM INTO '{}'", elsewhere.string()),
           "CREATE TRIGGER t AFTER INSERT ON run BEGIN SELECT 1; END"}) {
    StatementLog log;
    log.add(sql);
    EXPECT_FALSE(copy.apply(log.take()).ok()) << sql;
  }
  EXPECT_EQ(rows_of(copy_), before);
  EXPECT_FALSE(fs::exists(elsewhere));
}

TEST_F(JournalCopyTest, BytesThatMakeNoSenseAreRefused) {
  open();
  JournalCopy copy = begin();
  StatementLog log;
  log.add("INSERT OR REPLACE INTO run VALUES(?, ?)", std::string_view("k"), std::string_view("v"));
  const std::string whole = log.take();
  for (std::size_t length = 1; length < whole.size(); ++length)
    EXPECT_FALSE(copy.apply(whole.substr(0, length)).ok()) << length;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x81);
    copy.apply(changed).IgnoreError();  // the result does not matter, as long as this process lives
  }
  EXPECT_TRUE(copy.apply(whole).ok());
  log.add("INSERT OR REPLACE INTO run VALUES(?, ?)", std::string_view("k"));
  EXPECT_FALSE(copy.apply(log.take()).ok()) << "a value is missing";
}

}  // namespace
}  // namespace paceline::store

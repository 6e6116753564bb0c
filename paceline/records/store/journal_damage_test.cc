// Damaged, odd and hostile files, read as journals.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

class JournalDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto journal = Journal::open(path_, Version(0));
    tell(every_kind_of_event(), **journal);
    (*journal)->note_process({Time(Duration(1)), "server0", 1000, {{"server1", "weights", 5}}});
  }

  absl::Status replay() {
    auto reader = JournalReader::open(path_);
    if (!reader.ok()) return reader.status();
    Recorder recorder;
    reader->attempts().IgnoreError();
    reader->run().IgnoreError();
    absl::Status read = reader->replay(recorder);
    read.Update(reader->processes().status());
    return read;
  }
  absl::Status change(const std::string& sql) {
    return Database::open(path_, Database::Mode::kWrite)->execute(sql);
  }

  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "journal.sqlite";
};

TEST_F(JournalDamageTest, RowsThatCannotBeEventsAreErrors) {
  ASSERT_TRUE(replay().ok());
  for (const char* sql : {
           "UPDATE facts SET kind = 'ready?' WHERE kind = 'timer'",
           "UPDATE facts SET replica = -1 WHERE kind = 'left'",
           "UPDATE facts SET replica = 2147483648 WHERE kind = 'left'",
           "UPDATE facts SET replica = NULL WHERE kind = 'joined'",
           "UPDATE facts SET clock = 'x' WHERE kind = 'ready'",
           "UPDATE facts SET clock = 1.5 WHERE kind = 'ready'",
           "UPDATE facts SET base = -1 WHERE kind = 'ready'",
           "UPDATE facts SET compute_ns = -1 WHERE kind = 'ready'",
           "UPDATE facts SET loss = 'x' WHERE kind = 'ready'",
           "UPDATE facts SET loading_ns = -1 WHERE kind = 'ready'",
           "UPDATE facts SET pulling_ns = 'x' WHERE kind = 'ready'",
           "UPDATE facts SET cause = 'none' WHERE kind = 'stop'",
           "UPDATE other_orders SET cause = 'none' WHERE kind = 'finish'",
           "UPDATE side_work SET kind = 'sleep'",
           "UPDATE side_work SET took_ns = -1",
           "UPDATE side_work SET server = 1 << 40",
           "UPDATE facts SET at_ns = 'x'",
           "UPDATE commits SET version = -1",
           "UPDATE commits SET checkpoint = '{}' WHERE version = 2",
           "UPDATE commits SET why = '{} {} {}'",
           "UPDATE commits SET why = '{:999999999}'",
           "UPDATE commits SET why = '{'",
           "UPDATE commits SET why = '}'",
           "UPDATE commits SET why = '{{}'",
           "UPDATE members SET \"end\" = -1",
           "UPDATE members SET epoch = 1 << 40",
           "UPDATE members SET weight = 'x'",
           "UPDATE releases SET \"begin\" = 9, \"end\" = 8",
           "UPDATE releases SET why = '{0}'",
           "UPDATE releases SET why_a = 'x'",
           "UPDATE other_orders SET kind = 'parc' WHERE kind = 'park'",
           "UPDATE other_orders SET wake_ns = NULL WHERE kind = 'wake'",
           "UPDATE evaluations SET version = -1",
           "UPDATE evaluations SET accuracy = 'x'",
           "UPDATE plans SET plan = '{}'",
           "UPDATE plans SET plan = "
           "'{\"micro_batch\":1,\"replicas\":[{\"devices\":[0],\"cuts\":[1],\"samples\":1}]}'",
           "UPDATE plans SET plan = "
           "'{\"micro_batch\":1,\"replicas\":[{\"devices\":[2147483648],\"cuts\":[],\"samples\":1}]}'",
           "UPDATE plans SET predicted_ms = 'x'",
           "UPDATE batches SET regular = -1",
           "UPDATE batches SET work = '[[0,1]]'",
           "UPDATE batches SET work = '[[-1,1,1]]'",
           "UPDATE batches SET work = '['",
       }) {
    const std::string saved = *read_file(path_, 1 << 20);
    ASSERT_TRUE(change(sql).ok()) << sql;
    const absl::Status status = replay();
    EXPECT_TRUE(absl::IsDataLoss(status)) << sql << ": " << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path_.string() + ": damaged"));
    put_bytes(path_, saved);
  }
}

// The journal itself may be a pipe or a link, or a file that SQLite keeps beside it.
TEST_F(JournalDamageTest, APipeOrALinkIsRefusedAtOnce) {
  const std::string bytes = *read_file(path_, 10'000'000);
  for (const char* end : {"", "-wal", "-shm", "-journal"}) {
    SCOPED_TRACE(end);
    const std::filesystem::path file = path_.string() + end;
    std::filesystem::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_TRUE(absl::IsInvalidArgument(JournalReader::open(path_).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(Journal::open(path_, Version(0)).status()));
    std::filesystem::remove(file);
    put_bytes(directory_ / "elsewhere", bytes);
    std::filesystem::create_symlink(directory_ / "elsewhere", file);
    EXPECT_TRUE(absl::IsInvalidArgument(JournalReader::open(path_).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(Journal::open(path_, Version(0)).status()));
    EXPECT_EQ(*read_file(directory_ / "elsewhere", 10'000'000), bytes);
    std::filesystem::remove(file);
    put_bytes(path_, bytes);
    EXPECT_TRUE(replay().ok());
  }
}

// SQLite would delete the file that the end of a rollback journal names: any file of the user who looks at the run.
TEST_F(JournalDamageTest, AJournalThatNamesAnotherFileIsRefused) {
  const std::string victim = (directory_ / "victim").string();
  put_bytes(victim, "dear");
  const auto big_endian = [](std::uint32_t number) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 0xff);
    return bytes;
  };
  std::uint32_t sum = 0;
  for (const char letter : victim) sum += static_cast<unsigned char>(letter);
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  put_bytes(path_.string() + "-journal", std::string(512, '\1') + victim +
                                             big_endian(static_cast<std::uint32_t>(victim.size())) +
                                             big_endian(sum) + magic);
  EXPECT_TRUE(absl::IsInvalidArgument(JournalReader::open(path_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Journal::open(path_, Version(0)).status()));
  EXPECT_EQ(*read_file(victim, 100), "dear");
}

TEST_F(JournalDamageTest, MissingTablesAreErrors) {
  for (const char* table : {"facts", "commits", "members", "releases", "other_orders", "evaluations", "plans",
                            "batches", "side_work", "processes", "traffic", "attempts"}) {
    const std::string saved = *read_file(path_, 1 << 20);
    ASSERT_TRUE(change(fmt::format("DROP TABLE {}", table)).ok());
    EXPECT_TRUE(std::string(table) == "attempts" || !replay().ok()) << table;
    EXPECT_FALSE(Journal::open(path_, Version(0)).ok()) << table;
    put_bytes(path_, saved);
  }
}

TEST_F(JournalDamageTest, ATruncatedOrChangedFileIsReadOrRefused) {
  const std::string whole = *read_file(path_, 1 << 20);
  for (std::size_t size = 0; size < whole.size(); size += 509) {
    put_bytes(path_, whole.substr(0, size));
    EXPECT_FALSE(replay().ok()) << size;
  }
  for (std::size_t i = 0; i < whole.size(); i += whole[i] == 0 ? 61 : 3) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 8)));
    put_bytes(path_, bytes);
    replay().IgnoreError();
  }
}

}  // namespace
}  // namespace paceline::store

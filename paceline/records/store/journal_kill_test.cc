#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

constexpr int kBatch = 100;

// Fact n contains n, so that a hole would show.
control::Fact numbered(std::int64_t n) {
  return {Time(Duration(n)), control::ReplicaReady{ReplicaId(1), Clock(n), Version(0), Duration(1), 0.5}};
}

// Writes until it is killed; reports each flush to `progress`.
[[noreturn]] void write_for_ever(const std::filesystem::path& path, int progress) {
  auto journal = Journal::open(path, Version(0));
  if (!journal.ok()) ::_exit(1);
  for (std::int64_t n = 0;; ++n) {
    (*journal)->on_fact(numbered(n));
    if ((n + 1) % kBatch != 0) continue;
    if (!(*journal)->flush().ok() || ::write(progress, "x", 1) != 1) ::_exit(1);
  }
}

// Kills a writer after it has reported `flushes` flushes, somewhere in the middle of the next ones.
void write_and_kill(const std::filesystem::path& path, int flushes, int more_us) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) write_for_ever(path, ends[1]);
  ::close(ends[1]);
  for (int heard = 0; heard < flushes; ++heard) {
    char one;
    ASSERT_EQ(::read(ends[0], &one, 1), 1);
  }
  ::usleep(static_cast<useconds_t>(more_us));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
}

TEST(JournalKill, AKilledWriterLeavesAPrefix) {
  for (int round = 0; round < 10; ++round) {
    const TestDirectory directory;
    const auto path = directory / "journal.sqlite";
    write_and_kill(path, 20, round * 300);
    auto reader = JournalReader::open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::int64_t next = 0;
    const auto see = [&](const control::Fact& fact) {
      EXPECT_EQ(describe(fact), describe(numbered(next++)));
    };
    ASSERT_TRUE(reader->facts(see).ok());
    EXPECT_GE(next, 20 * kBatch);
    EXPECT_EQ(next % kBatch, 0);

    auto journal = Journal::open(path, Version(0));
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ((*journal)->attempt(), 2);
    (*journal)->on_fact(numbered(next));
    ASSERT_TRUE((*journal)->flush().ok());
    next = 0;
    ASSERT_TRUE(reader->facts(see).ok());
  }
}

}  // namespace
}  // namespace paceline::store

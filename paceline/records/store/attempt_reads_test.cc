// Reads of one attempt, compared with a reading of everything, row by row, on journals with several attempts; and the
// work that SQLite does for them, by its own count.
#include <array>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/sqlite.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

using control::CommitRecord;

constexpr std::int64_t kAttempts = 6;
constexpr std::array kTables{"facts",       "commits", "releases", "other_orders",
                             "evaluations", "plans",   "batches",  "side_work"};

Event commit(std::int64_t version) {
  CommitRecord record;
  record.version = Version(version);
  record.members = {{ReplicaId(0), Clock(version), Version(0), {0, 0, 8}, 1, 1}};
  record.why = {"", 0, 0};
  return std::pair(at(version), control::Order(record));
}

template <class What>
bool is_order(const Event& event) {
  const auto* order = std::get_if<std::pair<Time, control::Order>>(&event);
  return order != nullptr && std::holds_alternative<What>(order->second);
}

// So many events of all kinds, with commits of consecutive versions.
std::vector<Event> some_events(Rng& rng, std::uint64_t count, std::int64_t& version) {
  const std::vector<Event> kinds = every_kind_of_event();
  std::vector<Event> events;
  for (; count > 0; --count) {
    const Event& one = kinds[rng.below(kinds.size())];
    events.push_back(is_order<CommitRecord>(one) || rng.below(4) == 0 ? commit(++version) : one);
  }
  return events;
}

// SQLite's own count of the instructions that all statements of a life of this have carried out.
class SqliteSteps {
 public:
  SqliteSteps() {
    steps_ = 0;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(watch));
  }
  ~SqliteSteps() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(watch)); }
  SqliteSteps(const SqliteSteps&) = delete;
  SqliteSteps& operator=(const SqliteSteps&) = delete;
  static std::int64_t count() { return steps_; }

 private:
  static int add(unsigned, void*, void* statement, void*) {
    steps_ += sqlite3_stmt_status(static_cast<sqlite3_stmt*>(statement), SQLITE_STMTSTATUS_VM_STEP, 1);
    return 0;
  }
  static int watch(sqlite3* database, char**, const sqlite3_api_routines*) {
    return sqlite3_trace_v2(database, SQLITE_TRACE_PROFILE, add, nullptr);
  }
  static inline std::int64_t steps_ = 0;
};

class AttemptReadsTest : public ::testing::Test {
 protected:
  void record(const std::vector<Event>& events) {
    const auto journal = Journal::open(path_, Version(0));
    ASSERT_TRUE(journal.ok()) << journal.status();
    tell(events, **journal);
  }
  // A journal of attempts of which about every third is empty.
  void record_attempts(Rng& rng) {
    std::filesystem::remove(path_);
    std::int64_t version = 0;
    for (std::int64_t attempt = 0; attempt < kAttempts; ++attempt)
      record(some_events(rng, rng.below(3) == 0 ? 0 : rng.below(40), version));
  }
  void change(const std::string& sql) {
    const absl::Status changed = Database::open(path_, Database::Mode::kWrite)->execute(sql);
    ASSERT_TRUE(changed.ok()) << changed;
  }
  JournalReader reader() { return *JournalReader::open(path_); }

  // The numbers in the only or the two columns of a query.
  std::vector<std::pair<std::int64_t, std::int64_t>> rows(const std::string& query) {
    const auto database = Database::open(path_, Database::Mode::kRead);
    auto statement = database->prepare(query);
    EXPECT_TRUE(statement.ok() && statement->start().ok()) << statement.status();
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    while (*statement->next()) all.emplace_back(statement->integer(0), statement->integer(1));
    return all;
  }

  struct Told {
    std::int64_t seq;
    std::int64_t attempt;
    std::string line;
  };
  // All events, each with the attempt that its row names.
  std::vector<Told> everything() {
    std::string query;
    for (const char* table : kTables)
      query += fmt::format("{}SELECT seq, attempt FROM {}", query.empty() ? "" : " UNION ALL ", table);
    const auto events = rows(query + " ORDER BY seq");
    Recorder recorder;
    EXPECT_TRUE(reader().replay(recorder).ok());
    EXPECT_EQ(recorder.lines.size(), events.size());
    std::vector<Told> told;
    for (std::size_t i = 0; i < events.size(); ++i)
      told.push_back({events[i].first, events[i].second, recorder.lines[i]});
    return told;
  }
  static std::vector<std::string> lines_of(const std::vector<Told>& told, std::int64_t attempt,
                                           std::int64_t after = -1) {
    std::vector<std::string> lines;
    for (const Told& one : told) {
      if (one.attempt == attempt && one.seq > after) lines.push_back(one.line);
    }
    return lines;
  }
  std::vector<std::string> read(std::int64_t attempt, std::int64_t after = -1) {
    Recorder recorder;
    std::set<std::string, std::less<>> texts;
    EXPECT_TRUE(reader().replay_after(recorder, attempt, after, texts).ok());
    return recorder.lines;
  }
  std::vector<Version> versions_of(std::int64_t attempt) {
    std::vector<Version> versions;
    for (const auto& [version, of] : rows("SELECT version, attempt FROM commits ORDER BY seq")) {
      if (of == attempt) versions.emplace_back(version);
    }
    return versions;
  }

  void expect_right(Rng& rng) {
    const std::vector<Told> told = everything();
    for (std::int64_t attempt = 1; attempt <= kAttempts; ++attempt) {
      SCOPED_TRACE(fmt::format("attempt {}", attempt));
      EXPECT_EQ(read(attempt), lines_of(told, attempt));
      const auto after = static_cast<std::int64_t>(rng.below(told.size() + 2));
      EXPECT_EQ(read(attempt, after), lines_of(told, attempt, after));
      const auto committed = reader().committed(attempt);
      ASSERT_TRUE(committed.ok()) << committed.status();
      const std::vector<Version> versions = versions_of(attempt);
      ASSERT_EQ(committed->has_value(), !versions.empty());
      if (versions.empty()) continue;
      EXPECT_EQ((*committed)->first, versions.front());
      EXPECT_EQ((*committed)->newest, versions.back());
    }
  }

  const TestDirectory directory_;
  const std::filesystem::path path_ = directory_ / "journal.sqlite";
};

TEST_F(AttemptReadsTest, TellAllThatTheAttemptRecorded) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    record_attempts(rng);
    expect_right(rng);
  }
}

// An earlier version noted no first events, and whatever it may have mixed is read as before.
TEST_F(AttemptReadsTest, TellTheSameOfAnOlderJournal) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    record_attempts(rng);
    std::string mix = seed == 1 ? "DROP TABLE first_events;" : "DELETE FROM first_events;";
    for (const char* table : kTables) {
      mix += fmt::format("UPDATE {} SET attempt = 1 + (seq * {} >> 3) % {};", table, 1 + rng.below(99),
                         kAttempts);
    }
    change(mix);
    expect_right(rng);
  }
}

TEST_F(AttemptReadsTest, TellTheSameIfTheFirstEventsAreWrong) {
  Rng rng(1);
  record_attempts(rng);
  const auto right = rows("SELECT attempt, seq FROM first_events");
  ASSERT_EQ(std::ssize(right), kAttempts);
  const auto count = static_cast<std::uint64_t>(std::ssize(everything()));
  for (int damaged = 1; damaged <= 20; ++damaged) {
    SCOPED_TRACE(fmt::format("damage {}", damaged));
    std::string damage = "DELETE FROM first_events;";
    for (const auto& [attempt, seq] : right) {
      const std::uint64_t fate = rng.below(4);
      if (fate == 0) continue;
      const auto wrong = static_cast<std::int64_t>(rng.below(count + 5));
      damage += fmt::format("INSERT INTO first_events VALUES({}, {});", attempt, fate == 1 ? wrong : seq);
    }
    change(damage);
    expect_right(rng);
  }
}

TEST_F(AttemptReadsTest, NeverTellAnEventOfAnotherAttempt) {
  Rng rng(1);
  std::int64_t version = 0;
  for (int attempt = 0; attempt < 3; ++attempt) record(some_events(rng, 40, version));
  std::string mix;
  for (const char* table : kTables)
    mix += fmt::format("UPDATE {} SET attempt = 1 + seq % 3 WHERE seq % 5 = 0;", table);
  change(mix);
  const std::vector<Told> told = everything();
  for (std::int64_t attempt = 1; attempt <= 3; ++attempt)
    EXPECT_THAT(lines_of(told, attempt), ::testing::IsSupersetOf(read(attempt))) << attempt;
}

TEST_F(AttemptReadsTest, TellDecisionsWithoutWhatOthersDid) {
  const std::vector<Event> events = every_kind_of_event();
  record(events);
  record({});
  std::vector<Event> decided = events;
  std::erase_if(decided, [](const Event& event) {
    return std::holds_alternative<control::Evaluated>(event) ||
           std::holds_alternative<control::SideWork>(event);
  });
  Recorder recorder;
  ASSERT_TRUE(reader().decisions(recorder, 1).ok());
  EXPECT_EQ(recorder.lines, describe(decided));
  change("UPDATE side_work SET kind = 'sleep'");
  EXPECT_TRUE(reader().decisions(recorder, 1).ok()) << "it is not even read";
}

TEST_F(AttemptReadsTest, SayTheLastPlanAndTheLastQueue) {
  using control::BatchDone, control::PlanAdopted;
  const auto order = [](control::Order what) { return Event(std::pair(at(1), std::move(what))); };
  const auto queue = [&](double length) {
    return order(BatchDone{at(1), 1, 1, true, {}, control::Spending{1, 1, length}});
  };
  record({order(control::Park{ReplicaId(0)})});
  EXPECT_FALSE(reader().last_plan()->has_value());
  EXPECT_FALSE(reader().last_queue()->has_value());
  const planner::Plan plan{{{{0, 1}, {3}, 8}}, 4};
  record(
      {order(PlanAdopted{at(1), plan, 1, "first"}), order(PlanAdopted{at(1), plan, 2, "second"}), queue(3)});
  record({queue(7), order(BatchDone{at(1), 1, 1, true, {}})});
  const auto last = reader().last_plan();
  ASSERT_TRUE(last.ok() && last->has_value()) << last.status();
  EXPECT_EQ((*last)->attempt, 2);
  EXPECT_EQ((*last)->adopted, (PlanAdopted{at(1), plan, 2, "second"}));
  EXPECT_EQ(reader().last_queue()->value(), 7);
}

TEST_F(AttemptReadsTest, SayWhereMemoryWasShort) {
  const auto out = [](int device) { return Event(control::Fact{at(1), control::DeviceOutOfMemory{device}}); };
  record({out(0), commit(1)});
  record({commit(2)});
  record({out(1), commit(3), out(2), control::Fact{at(1), control::TimerRang{}}});
  EXPECT_TRUE(*reader().tells_of_short_memory(1));
  EXPECT_FALSE(*reader().tells_of_short_memory(2));
  for (const char* sql : {"SELECT 1", "DROP INDEX short_memory"}) {  // an older journal has no index
    change(sql);
    Recorder recorder;
    ASSERT_TRUE(reader().short_memory(recorder, 3).ok());
    EXPECT_EQ(recorder.lines, describe(std::vector<Event>{out(1), out(2)}));
  }
}

// The number of instructions that SQLite carries out for a read is the same, however much was recorded before and after
// what is read.
class WorkOfReadsTest : public AttemptReadsTest {
 protected:
  using Read = std::function<absl::Status(JournalReader&)>;

  std::vector<std::int64_t> work(const std::vector<Read>& reads) {
    std::vector<std::int64_t> steps;
    for (const Read& read : reads) {
      const SqliteSteps counted;
      JournalReader journal = reader();
      EXPECT_TRUE(read(journal).ok());
      steps.push_back(SqliteSteps::count());
    }
    return steps;
  }
  static std::vector<Event> many(int times) {
    std::vector<Event> events;
    for (; times > 0; --times) {
      const std::vector<Event> kinds = every_kind_of_event();
      events.insert(events.end(), kinds.begin(), kinds.end());
    }
    return events;
  }
  Recorder ignored_;
};

TEST_F(WorkOfReadsTest, DoesNotGrowWithOtherAttempts) {
  const std::vector<Read> reads{
      [this](JournalReader& journal) { return journal.replay(ignored_, 2); },
      [this](JournalReader& journal) { return journal.decisions(ignored_, 2); },
      [this](JournalReader& journal) { return journal.short_memory(ignored_, 2); },
      [](JournalReader& journal) { return journal.committed(2).status(); },
      [](JournalReader& journal) { return journal.tells_of_short_memory(2).status(); },
      [](JournalReader& journal) { return journal.tells_of_planning(2).status(); },
  };
  for (const std::vector<Event>& second : {every_kind_of_event(), std::vector<Event>{}}) {
    std::vector<std::int64_t> least;
    for (const auto& [before, after] : {std::pair(1, 1), std::pair(40, 1), std::pair(1, 40)}) {
      std::filesystem::remove(path_);
      record(many(before));
      record(second);
      record(many(after));
      const std::vector<std::int64_t> steps = work(reads);
      if (least.empty()) least = steps;
      EXPECT_EQ(steps, least) << before << " before, " << after << " after";
      EXPECT_THAT(steps, ::testing::Each(::testing::Gt(0)));
    }
  }
}

TEST_F(WorkOfReadsTest, OfTheNewestDoesNotGrowWithTheRun) {
  const std::vector<Read> reads{
      [](JournalReader& journal) { return journal.finish().status(); },
      [](JournalReader& journal) { return journal.committed(2).status(); },
      [](JournalReader& journal) { return journal.last_plan().status(); },
      [](JournalReader& journal) { return journal.last_queue().status(); },
  };
  for (const bool is_empty : {false, true}) {
    std::vector<std::int64_t> least;
    for (const int times : {1, 40}) {
      std::filesystem::remove(path_);
      record(many(times));
      std::vector<Event> unfinished = is_empty ? std::vector<Event>{} : many(times);
      std::erase_if(unfinished, is_order<control::Finish>);
      record(unfinished);
      EXPECT_FALSE(reader().finish()->has_value());
      const std::vector<std::int64_t> steps = work(reads);
      if (least.empty()) least = steps;
      EXPECT_EQ(steps, least) << times;
    }
  }
}

}  // namespace
}  // namespace paceline::store

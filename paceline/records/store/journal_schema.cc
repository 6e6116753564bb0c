#include "paceline/records/store/journal_schema.h"

#include <string>

#include <fmt/format.h>

namespace paceline::store {

namespace {

constexpr const char* kJournalFormat = "8";
constexpr const char* kFormatBefore = "7";

// The columns that the previous format does not have.
constexpr const char* kNewColumns = R"sql(
ALTER TABLE facts ADD COLUMN loading_ns INTEGER;
ALTER TABLE facts ADD COLUMN pulling_ns INTEGER;
ALTER TABLE facts ADD COLUMN cause TEXT;
ALTER TABLE other_orders ADD COLUMN cause TEXT;
)sql";
constexpr const char* kNewTables = R"sql(
CREATE TABLE side_work(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, kind TEXT NOT NULL,
  version INTEGER NOT NULL, took_ns INTEGER NOT NULL, server INTEGER NOT NULL, bytes INTEGER NOT NULL,
  threads INTEGER NOT NULL, members INTEGER NOT NULL);
CREATE TABLE processes(
  process TEXT PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, resident_bytes INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE traffic(
  process TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL,
  bytes INTEGER NOT NULL, PRIMARY KEY(process, peer, kind)) WITHOUT ROWID;
)sql";

// A journal of today's format may be older than these tables.
constexpr const char* kLaterTables = R"sql(
CREATE TABLE IF NOT EXISTS scraps(
  seq INTEGER NOT NULL, replica INTEGER NOT NULL, "begin" INTEGER NOT NULL, "end" INTEGER NOT NULL,
  PRIMARY KEY(seq, replica)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shard_lengths(
  shard INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, records INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS first_events(attempt INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
)sql";

// Finds where devices ran out of memory. Only planned runs ask for that, so that an older journal without plans is
// spared the search that makes it.
constexpr const char* kShortMemoryIndex =
    "CREATE INDEX IF NOT EXISTS short_memory ON facts(attempt) WHERE kind = 'device_out_of_memory';";

constexpr const char* kTables = R"sql(
BEGIN;
CREATE TABLE run(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE attempts(attempt INTEGER PRIMARY KEY, from_version INTEGER NOT NULL);
CREATE TABLE facts(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, kind TEXT NOT NULL,
  replica INTEGER, name TEXT, batch INTEGER, clock INTEGER, base INTEGER, compute_ns INTEGER, loss REAL, why TEXT,
  metrics TEXT, planning TEXT, loading_ns INTEGER, pulling_ns INTEGER, cause TEXT);
CREATE TABLE commits(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, version INTEGER NOT NULL,
  samples INTEGER NOT NULL, committed_before INTEGER NOT NULL, nominal INTEGER NOT NULL, fraction REAL,
  of_differences INTEGER NOT NULL, learning_rate REAL, evaluate INTEGER NOT NULL, checkpoint TEXT,
  why TEXT NOT NULL, why_a INTEGER NOT NULL, why_b INTEGER NOT NULL);
CREATE TABLE members(
  seq INTEGER NOT NULL, version INTEGER NOT NULL, replica INTEGER NOT NULL, clock INTEGER NOT NULL,
  base INTEGER NOT NULL, epoch INTEGER NOT NULL, "begin" INTEGER NOT NULL, "end" INTEGER NOT NULL,
  weight REAL, share REAL, PRIMARY KEY(seq, replica)) WITHOUT ROWID;
CREATE TABLE releases(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, replica INTEGER NOT NULL,
  clock INTEGER NOT NULL, version INTEGER NOT NULL, epoch INTEGER NOT NULL, "begin" INTEGER NOT NULL,
  "end" INTEGER NOT NULL, learning_rate REAL, staleness REAL, fraction REAL, steps INTEGER NOT NULL,
  why TEXT NOT NULL, why_a INTEGER NOT NULL, why_b INTEGER NOT NULL);
CREATE TABLE other_orders(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, kind TEXT NOT NULL,
  replica INTEGER, clock INTEGER, wake_ns INTEGER, why TEXT, why_a INTEGER, why_b INTEGER,
  cause TEXT);
CREATE TABLE evaluations(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, version INTEGER NOT NULL,
  samples INTEGER NOT NULL, loss REAL, accuracy REAL, metrics TEXT);
CREATE TABLE plans(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, plan TEXT NOT NULL,
  predicted_ms REAL, why TEXT NOT NULL);
CREATE TABLE batches(
  seq INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, at_ns INTEGER NOT NULL, predicted_ms REAL, measured_ms REAL,
  regular INTEGER NOT NULL, work TEXT NOT NULL, cost REAL, allowed REAL, queue REAL);
CREATE VIEW kept_commits AS SELECT * FROM commits AS c WHERE NOT EXISTS (
  SELECT 1 FROM attempts AS a WHERE a.attempt > c.attempt AND a.from_version < c.version);
)sql";

absl::StatusOr<bool> has_table(const Database& database, std::string_view name) {
  return database.has_row(
      fmt::format("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '{}'", name));
}

}  // namespace

absl::Status make_tables_if_empty(const Database& database) {
  // Any table is listed here; an error if the file is no database.
  PACELINE_ASSIGN_OR_RETURN(const bool used, database.has_row("SELECT 1 FROM sqlite_schema LIMIT 1"));
  if (used) return absl::OkStatus();
  return database.execute(fmt::format("{}{}{}{}INSERT INTO run VALUES('format_version', '{}'); COMMIT;",
                                      kTables, kLaterTables, kNewTables, kShortMemoryIndex, kJournalFormat));
}

absl::StatusOr<bool> is_of_today(const Database& database) {
  return database.has_row(
      fmt::format("SELECT 1 FROM run WHERE key = 'format_version' AND value = '{}'", kJournalFormat));
}

absl::StatusOr<bool> has_scraps(const Database& database) { return has_table(database, "scraps"); }
absl::StatusOr<bool> has_shard_lengths(const Database& database) {
  return has_table(database, "shard_lengths");
}
absl::StatusOr<bool> has_first_events(const Database& database) {
  return has_table(database, "first_events");
}

absl::Status bring_up_to_date(const Database& database) {
  PACELINE_RETURN_IF_ERROR(database.execute(kLaterTables));
  PACELINE_ASSIGN_OR_RETURN(const bool planned, database.has_row("SELECT 1 FROM plans LIMIT 1"));
  if (planned) PACELINE_RETURN_IF_ERROR(database.execute(kShortMemoryIndex));
  PACELINE_ASSIGN_OR_RETURN(const bool is, is_of_today(database));
  if (is) return absl::OkStatus();
  return database.execute(
      fmt::format("BEGIN; {}{}UPDATE run SET value = '{}' WHERE key = 'format_version'; COMMIT;", kNewColumns,
                  kNewTables, kJournalFormat));
}

absl::Status check_is_journal(const Database& database, const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const bool has_run, has_table(database, "run"));
  if (!has_run) {
    return absl::FailedPreconditionError(
        fmt::format("{}: not a journal of Paceline; check the path, or move the file away", path.string()));
  }
  PACELINE_ASSIGN_OR_RETURN(
      const bool format,
      database.has_row(fmt::format("SELECT 1 FROM run WHERE key = 'format_version' AND value IN ('{}', '{}')",
                                   kJournalFormat, kFormatBefore)));
  if (format) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: written by another version of Paceline; use that one", path.string()));
}

absl::StatusOr<Database> open_journal(const std::filesystem::path& path, Database::Mode mode) {
  PACELINE_ASSIGN_OR_RETURN(Database database, Database::open(path, mode));
  PACELINE_RETURN_IF_ERROR(check_is_journal(database, path));
  return database;
}

}  // namespace paceline::store

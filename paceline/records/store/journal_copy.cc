#include "paceline/records/store/journal_copy.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_schema.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPassing = ".to-keep-";

}  // namespace

absl::StatusOr<JournalSnapshot> JournalSnapshot::take(const fs::path& journal) {
  PACELINE_ASSIGN_OR_RETURN(Database database, Database::open(journal, Database::Mode::kRead));
  PACELINE_RETURN_IF_ERROR(database.execute("BEGIN"));
  // A transaction sees the database as of its first read.
  PACELINE_RETURN_IF_ERROR(database.execute("SELECT count(*) FROM run"));
  return JournalSnapshot(std::move(database));
}

absl::Status JournalSnapshot::write(const fs::path& file, const std::function<bool()>& goes_on) && {
  const Database seen = std::move(database_);  // its end lets the log go
  PACELINE_ASSIGN_OR_RETURN(const Database copy, Database::open(file, Database::Mode::kWrite));
  // Forcing a large file to disk takes minutes, in which no portion would be done.
  PACELINE_RETURN_IF_ERROR(copy.execute("PRAGMA synchronous = OFF"));
  PACELINE_RETURN_IF_ERROR(seen.copy_to(copy, goes_on));
  return copy.execute("PRAGMA journal_mode = DELETE");  // all of it in one file
}

absl::StatusOr<JournalCopy> JournalCopy::open(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(Database database, open_journal(path, Database::Mode::kWrite));
  PACELINE_RETURN_IF_ERROR(database.execute("PRAGMA journal_mode = WAL"));
  // The process that writes the journal itself has it on disk: no loss of power takes both.
  PACELINE_RETURN_IF_ERROR(database.execute("PRAGMA synchronous = NORMAL"));
  database.allow_only_rows();
  return JournalCopy(std::move(database));
}

absl::Status JournalCopy::apply(std::string_view statements) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<LoggedStatement> all, read_statements(statements));
  for (const LoggedStatement& one : all) {
    auto found = prepared_.find(one.sql);
    if (found == prepared_.end()) {
      PACELINE_ASSIGN_OR_RETURN(Statement statement, database_.prepare(one.sql));
      found = prepared_.emplace(one.sql, std::move(statement)).first;
    }
    PACELINE_RETURN_IF_ERROR(found->second.run(one.values));
  }
  return absl::OkStatus();
}

fs::path passing_snapshot(const fs::path& journal, int number) {
  return fmt::format("{}{}{}", journal.string(), kPassing, number);
}

void remove_unfinished_copies(const fs::path& journal) {
  const std::string name = journal.filename().string();
  for (const std::string& other : names_in(journal.parent_path()).value_or(std::vector<std::string>())) {
    if (other.starts_with(name + kPassing) || other.starts_with(name + AtomicFile::kUncommitted))
      ::unlink((journal.parent_path() / other).c_str());
  }
}

}  // namespace paceline::store

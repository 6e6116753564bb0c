#include "paceline/records/store/sqlite.h"

#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "paceline/base/overloaded.h"
#include "paceline/records/store/files.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

constexpr int kPatienceMs = 5000;
constexpr int kPortionPages = 4096;
constexpr const char* kLook = "SELECT count(*) FROM sqlite_schema";

absl::Status error_of(sqlite3* database, const fs::path& path) {
  const std::string name = path.string();
  const std::string detail = sqlite3_errmsg(database);
  switch (sqlite3_errcode(database) & 0xff) {
    case SQLITE_FULL:
      return io_error(path, "written", ENOSPC);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(fmt::format("{}: another process holds it locked; close that one", name));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          fmt::format("{}: damaged ({}); move it away, the checkpoints do not need it", name, detail));
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return io_error(path, "written", EACCES);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      if (const int cause = sqlite3_system_errno(database)) return io_error(path, "opened or written", cause);
      break;
    default:
      break;
  }
  return absl::UnavailableError(fmt::format("{}: {}; check the file and the disk", name, detail));
}

// Refuses a pipe, which would hang the process, and a link, which would have it write elsewhere; also in the
// files that SQLite keeps beside the database.
absl::Status check_regular(const fs::path& path) {
  for (const char* end : {"", "-wal", "-shm", "-journal"}) {
    const fs::path file = path.string() + end;
    std::error_code error;
    const fs::file_status there = fs::symlink_status(file, error);
    if (fs::exists(there) && !fs::is_regular_file(there)) return not_regular(file);
  }
  return absl::OkStatus();
}

// Refuses a rollback journal of a transaction over several databases, which Paceline never makes. SQLite deletes the
// file that its end names, and the maker of the folder could name any file of this user.
absl::Status check_names_no_file(const fs::path& path) {
  constexpr std::string_view kMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  const fs::path journal = path.string() + "-journal";
  std::ifstream file(journal, std::ios::binary);
  std::string end(kMagic.size(), '\0');
  if (!file.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end) ||
      !file.read(end.data(), static_cast<std::streamsize>(end.size())) || end != kMagic)
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: names another file, which reading it would delete; Paceline has not made it: move it away",
      journal.string()));
}

}  // namespace

absl::Status Statement::error() const {
  sqlite3* database = sqlite3_db_handle(get());
  return error_of(database, sqlite3_db_filename(database, "main"));
}

absl::StatusOr<bool> Statement::next() {
  const int code = sqlite3_step(get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return error();
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(get(), column));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(get(), column)));
}

void Statement::bind(int place, std::string_view value) {
  // The statement is stepped while `value` lives. An empty view may have no address, which would bind a NULL.
  const char* data = value.empty() ? "" : value.data();
  note(sqlite3_bind_text64(get(), place, data, value.size(), SQLITE_STATIC, SQLITE_UTF8));
}

absl::Status Statement::run(const std::vector<LoggedValue>& values) {
  reset();
  int place = 0;
  for (const LoggedValue& value : values) {
    std::visit(Overloaded{[&](const std::string& text) { bind(++place, std::string_view(text)); },
                          [&](const auto& one) { bind(++place, one); }},
               value);
  }
  if (!bound_ || place != sqlite3_bind_parameter_count(get())) return error();
  return finish();
}

absl::StatusOr<Database> Database::open(const fs::path& path, Mode mode) {
  PACELINE_RETURN_IF_ERROR(check_regular(path));
  PACELINE_RETURN_IF_ERROR(check_names_no_file(path));
  if (mode == Mode::kWrite) return open_as(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  PACELINE_ASSIGN_OR_RETURN(Database database, open_as(path, SQLITE_OPEN_READONLY));
  if (!database.was_left_half_written()) return database;
  // The writer was killed during a transaction, which a reader without the right to write may not undo.
  PACELINE_ASSIGN_OR_RETURN(const Database recovered, open_as(path, SQLITE_OPEN_READWRITE));
  PACELINE_RETURN_IF_ERROR(recovered.execute(kLook));
  return database;
}

bool Database::was_left_half_written() const {
  return sqlite3_exec(database_.get(), kLook, nullptr, nullptr, nullptr) != SQLITE_OK &&
         sqlite3_extended_errcode(database_.get()) == SQLITE_READONLY_ROLLBACK;
}

absl::StatusOr<Database> Database::open_as(const fs::path& path, int access) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, access | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(raw);
  if (code != SQLITE_OK) return error_of(raw, path);
  database.set_patience_ms(kPatienceMs);
  // Another program may have written the file: its schema may not do more than hold data.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return database;
}

absl::Status Database::execute(const std::string& sql) const {
  sqlite3* raw = database_.get();
  if (sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    if (log_ != nullptr && !sql.starts_with("PRAGMA")) log_->add(sql);
    return absl::OkStatus();
  }
  return error_of(raw, sqlite3_db_filename(raw, "main"));
}

absl::StatusOr<Statement> Database::prepare(const std::string& sql) const {
  sqlite3* raw = database_.get();
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(raw, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK)
    return Statement(statement, log_.get());
  return error_of(raw, sqlite3_db_filename(raw, "main"));
}

void Database::allow_only_rows() const {
  const auto judge = [](void*, int action, const char* what, const char* function, const char*, const char*) {
    switch (action) {
      case SQLITE_TRANSACTION:
      case SQLITE_SELECT:
      case SQLITE_READ:
        return SQLITE_OK;
      case SQLITE_INSERT:
      case SQLITE_UPDATE:
      case SQLITE_DELETE:
        return std::string_view(what).starts_with("sqlite_") ? SQLITE_DENY : SQLITE_OK;
      case SQLITE_FUNCTION:
        return std::string_view(function) == "max" ? SQLITE_OK : SQLITE_DENY;
      default:
        return SQLITE_DENY;
    }
  };
  sqlite3_set_authorizer(database_.get(), judge, nullptr);
}

absl::Status Database::copy_to(const Database& other, const std::function<bool()>& goes_on) const {
  sqlite3* to = other.database_.get();
  sqlite3_backup* copy = sqlite3_backup_init(to, "main", database_.get(), "main");
  if (copy == nullptr) return error_of(to, sqlite3_db_filename(to, "main"));
  int code = sqlite3_backup_step(copy, kPortionPages);
  while (code == SQLITE_OK && goes_on()) code = sqlite3_backup_step(copy, kPortionPages);
  const int finished = sqlite3_backup_finish(copy);
  if (code == SQLITE_DONE && finished == SQLITE_OK) return absl::OkStatus();
  if (code == SQLITE_OK && finished == SQLITE_OK)
    return absl::CancelledError(fmt::format("{}: nobody wants it any more", sqlite3_db_filename(to, "main")));
  return error_of(to, sqlite3_db_filename(to, "main"));
}

}  // namespace paceline::store

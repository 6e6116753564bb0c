// A thin wrapper of SQLite: its error codes become an absl::Status, and its handles close themselves. For the
// journal only. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sqlite3.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/statement_log.h"

namespace paceline::store {

// A prepared statement. Must not outlive its Database.
class Statement {
 public:
  // Binds the values in order and runs it to its end.
  template <class... Values>
  absl::Status run(const Values&... values) {
    PACELINE_RETURN_IF_ERROR(start(values...));
    PACELINE_RETURN_IF_ERROR(finish());
    if (log_ != nullptr) log_->add(sqlite3_sql(get()), values...);
    return absl::OkStatus();
  }
  absl::Status run(const std::vector<LoggedValue>& values);

  // Binds the values for a query; then call next() until it returns false.
  template <class... Values>
  absl::Status start(const Values&... values) {
    reset();
    int place = 0;
    (bind(++place, values), ...);
    return bound_ ? absl::OkStatus() : error();
  }
  absl::StatusOr<bool> next();

  // Values of the current row. SQLite converts a value of another type, or returns 0.
  bool is_integer(int column) const { return sqlite3_column_type(get(), column) == SQLITE_INTEGER; }
  bool is_real(int column) const { return sqlite3_column_type(get(), column) == SQLITE_FLOAT; }
  bool is_null(int column) const { return sqlite3_column_type(get(), column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
  double real(int column) const { return sqlite3_column_double(get(), column); }
  std::string text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  Statement(sqlite3_stmt* statement, StatementLog* log) : statement_(statement), log_(log) {}
  sqlite3_stmt* get() const { return statement_.get(); }
  absl::Status error() const;
  void reset() {
    sqlite3_reset(get());
    bound_ = true;
  }
  absl::Status finish() {
    const absl::StatusOr<bool> row = next();
    reset();
    return row.status();
  }
  void bind(int place, std::int64_t value) { note(sqlite3_bind_int64(get(), place, value)); }
  void bind(int place, double value) { note(sqlite3_bind_double(get(), place, value)); }
  void bind(int place, std::nullptr_t) { note(sqlite3_bind_null(get(), place)); }
  void bind(int place, std::string_view value);
  template <class Value>
  void bind(int place, const std::optional<Value>& value) {
    return value ? bind(place, *value) : bind(place, nullptr);
  }
  void note(int code) { bound_ = bound_ && code == SQLITE_OK; }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  StatementLog* log_;  // the database's log; null if it keeps none
  bool bound_ = true;
};

class Database {
 public:
  enum class Mode { kRead, kWrite };

  // Opens the file; kWrite makes it if it is not there. Undoes what a killed writer left half written.
  // Errors: NotFound, PermissionDenied, DataLoss; InvalidArgument if it is no regular file.
  static absl::StatusOr<Database> open(const std::filesystem::path& path, Mode mode);

  // Runs statements that give no rows.
  absl::Status execute(const std::string& sql) const;
  absl::StatusOr<Statement> prepare(const std::string& sql) const;
  // True if the query returns any row.
  template <class... Values>
  absl::StatusOr<bool> has_row(const std::string& query, const Values&... values) const {
    PACELINE_ASSIGN_OR_RETURN(Statement statement, prepare(query));
    PACELINE_RETURN_IF_ERROR(statement.start(values...));
    return statement.next();
  }
  // Sets how long to wait for another process that locks the file.
  void set_patience_ms(int patience_ms) const { sqlite3_busy_timeout(database_.get(), patience_ms); }
  // Allows only to read and change rows of tables from now on. For another program's statements.
  void allow_only_rows() const;
  // The statements that changed the database and ran to their end. Null before `log_changes`.
  StatementLog* log() const { return log_.get(); }
  // Logs the statements that are prepared from now on.
  void log_changes() { log_ = std::make_unique<StatementLog>(); }
  // Copies the database, as this connection sees it now, over the other one. `goes_on` is called after each
  // portion of 16 MB. Errors: the disk's; Cancelled once it returns false.
  absl::Status copy_to(const Database& other, const std::function<bool()>& goes_on) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  explicit Database(sqlite3* database) : database_(database) {}
  static absl::StatusOr<Database> open_as(const std::filesystem::path& path, int access);
  bool was_left_half_written() const;

  std::unique_ptr<sqlite3, Close> database_;
  std::unique_ptr<StatementLog> log_;  // its statements point to it
};

}  // namespace paceline::store

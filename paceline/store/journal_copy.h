// A copy of a journal that another process writes, row by row as it grows: on another host, in case the first
// one is lost. It begins with a JournalSnapshot, and what the journal logs from then on follows.
//
// Invariant: the copy is a prefix of the journal, whole transactions. A statement that does more than
// to change rows is refused. One thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/store/sqlite.h"

namespace paceline::store {

// A journal as it was when this was made, however it grows since. Another thread may take it over.
class JournalSnapshot {
 public:
  static absl::StatusOr<JournalSnapshot> take(const std::filesystem::path& journal);
  // Into a new file.
  absl::Status write(const std::filesystem::path& file) const;

 private:
  explicit JournalSnapshot(Database database) : database_(std::move(database)) {}

  Database database_;  // in a transaction that reads
};

class JournalCopy {
 public:
  // Errors: those of the file.
  static absl::StatusOr<JournalCopy> open(const std::filesystem::path& path);
  // Errors: InvalidArgument for bytes that no journal logs; those of the disk.
  absl::Status apply(std::string_view statements);

 private:
  explicit JournalCopy(Database database) : database_(std::move(database)) {}

  Database database_;  // before its statements
  std::map<std::string, Statement, std::less<>> prepared_;
};

}  // namespace paceline::store

// A copy of a journal that another process writes, row by row as it grows: on another host, in case the first
// one is lost. It begins with a JournalSnapshot, and continues with the statements that the journal logs.
//
// Invariant: the copy is a prefix of the journal, in whole transactions. A statement that does more than
// change rows is refused. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/records/store/sqlite.h"

namespace paceline::store {

// A journal as it was when this was made, even if it grows. As long as this exists, the journal's log cannot be
// restarted, and grows with the journal. May be passed on to another thread.
class JournalSnapshot {
 public:
  static absl::StatusOr<JournalSnapshot> take(const std::filesystem::path& journal);
  // Writes it into a new file, which a loss of power may damage, and lets the journal's log go. `goes_on` is
  // called after each portion. Errors: the disk's; Cancelled once it returns false.
  absl::Status write(
      const std::filesystem::path& file, const std::function<bool()>& goes_on = [] { return true; }) &&;

 private:
  explicit JournalSnapshot(Database database) : database_(std::move(database)) {}

  Database database_;  // in a transaction that reads
};

class JournalCopy {
 public:
  // Errors: those of the file.
  static absl::StatusOr<JournalCopy> open(const std::filesystem::path& path);
  // Errors: InvalidArgument for bytes that no journal logs; the disk's.
  absl::Status apply(std::string_view statements);

 private:
  explicit JournalCopy(Database database) : database_(std::move(database)) {}

  Database database_;  // before its statements, which must be destroyed first
  std::map<std::string, Statement, std::less<>> prepared_;
};

// Names a file for the snapshot that is passed on to another host; no two have the same number.
std::filesystem::path passing_snapshot(const std::filesystem::path& journal, int number);

// Removes what processes that were killed left of copies of that journal: snapshots on their way to another host,
// and journals that were coming from one. Requires: the run folder's lock, and no such copy is under way.
void remove_unfinished_copies(const std::filesystem::path& journal);

}  // namespace paceline::store

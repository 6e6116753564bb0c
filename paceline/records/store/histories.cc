#include "paceline/records/store/histories.h"

#include <system_error>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/checkpoint_state.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_schema.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::store {

namespace fs = std::filesystem;

namespace {

absl::StatusOr<bool> counts(const Database& journal, Version version, Duration elapsed) {
  if (version == Version(0)) return true;  // every history begins with this version
  // The commit of a checkpoint is one of the last.
  return journal.has_row(
      "SELECT 1 FROM kept_commits WHERE version = ? AND at_ns = ? ORDER BY seq DESC LIMIT 1", version.value(),
      std::int64_t{elapsed.count()});
}

absl::StatusOr<bool> has_last_commit_of(const fs::path& own, const Database& journal) {
  PACELINE_ASSIGN_OR_RETURN(const Database database, open_journal(own, Database::Mode::kRead));
  PACELINE_ASSIGN_OR_RETURN(
      Statement last, database.prepare("SELECT seq, version, at_ns FROM commits ORDER BY seq DESC LIMIT 1"));
  PACELINE_RETURN_IF_ERROR(last.start());
  PACELINE_ASSIGN_OR_RETURN(const bool any, last.next());
  if (!any) return true;
  return journal.has_row("SELECT 1 FROM commits WHERE seq = ? AND version = ? AND at_ns = ?", last.integer(0),
                         last.integer(1), last.integer(2));
}

absl::Status set_aside_journal(const fs::path& journal) {
  const fs::path aside = aside_of(journal);
  for (const char* part : {"", "-wal"}) {  // SQLite finds the second file by the name of the first
    std::error_code error;
    const fs::path path = journal.string() + part;
    if (fs::exists(path, error)) PACELINE_RETURN_IF_ERROR(move_to(path, aside.string() + part));
  }
  return sync_directory(journal.parent_path());
}

}  // namespace

absl::StatusOr<bool> make_way_for(const fs::path& run, const NamedCheckpoint& newest) {
  const std::optional<Version> version = checkpoint_version(newest.name);
  if (!version) return absl::InvalidArgumentError("no checkpoint has such a name");
  bool here = false;
  PACELINE_RETURN_IF_ERROR(set_aside_checkpoints(run, [&](Version one, const fs::path& directory) {
    if (one != *version) return one > *version;
    const auto identity = checkpoint_identity(directory);
    here = identity.ok() && *identity == newest.identity;
    return !here;
  }));
  return here;
}

absl::Status leave_own_history(const RunPaths& run, const fs::path& journal,
                               const std::optional<NamedCheckpoint>& newest) {
  PACELINE_ASSIGN_OR_RETURN(const Database database, open_journal(journal, Database::Mode::kRead));
  if (newest) PACELINE_RETURN_IF_ERROR(make_way_for(run.root, *newest).status());
  absl::Status status;
  const auto is_other = [&](Version version, const fs::path& directory) {
    if (!newest) return true;
    if (version == checkpoint_version(newest->name)) return false;
    const auto state = read_checkpoint_state(directory / kCheckpointState);
    if (!state.ok()) return true;
    const auto theirs = counts(database, version, state->elapsed);
    status.Update(theirs.status());
    return theirs.ok() && !*theirs;
  };
  PACELINE_RETURN_IF_ERROR(set_aside_checkpoints(run.root, is_other));
  PACELINE_RETURN_IF_ERROR(status);
  std::error_code error;
  if (!fs::exists(run.journal(), error)) return absl::OkStatus();
  const auto has_all = has_last_commit_of(run.journal(), database);
  return has_all.ok() && *has_all ? absl::OkStatus() : set_aside_journal(run.journal());
}

}  // namespace paceline::store

// The journal's tables, and the check that a database is a journal. For the journal's writer and reader only;
// what the columns mean is said in journal.h.
#pragma once

#include <filesystem>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/store/sqlite.h"

namespace paceline::store {

// Makes the tables in an empty database; leaves any other alone.
absl::Status make_tables_if_empty(const Database& database);

// Whether facts say anything of planning: older journals have no such column, until somebody goes on in them.
absl::StatusOr<bool> has_planning(const Database& database);
absl::Status add_planning_if_missing(const Database& database);

// Errors: FailedPrecondition when it is something else, or when a newer Paceline wrote it.
absl::Status check_is_journal(const Database& database, const std::filesystem::path& path);

}  // namespace paceline::store

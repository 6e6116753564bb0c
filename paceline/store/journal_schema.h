// The journal's tables, and the check that a database is a journal. For the journal's writer and reader only;
// what the columns mean is said in journal.h.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/store/sqlite.h"

namespace paceline::store {

// As control::SideWork::Kind counts them.
inline constexpr std::array<std::string_view, 3> kSideWorkKinds{"update", "evaluation", "checkpoint"};

// Makes the tables in an empty database; leaves any other alone.
absl::Status make_tables_if_empty(const Database& database);

// Whether it has all columns and tables of today: one of the format before gets them once somebody goes on in
// it.
absl::StatusOr<bool> is_of_today(const Database& database);
absl::Status bring_up_to_date(const Database& database);

// Errors: FailedPrecondition when it is something else, or when a newer Paceline wrote it.
absl::Status check_is_journal(const Database& database, const std::filesystem::path& path);
// A file that is one. Errors: the same; those of the file.
absl::StatusOr<Database> open_journal(const std::filesystem::path& path, Database::Mode mode);

}  // namespace paceline::store

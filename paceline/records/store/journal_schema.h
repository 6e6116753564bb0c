// The journal's tables, and the check that a database is a journal. For the journal's writer and reader only;
// journal.h describes the columns.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/records/store/sqlite.h"

namespace paceline::store {

// Indexed by control::SideWork::Kind.
inline constexpr std::array<std::string_view, 3> kSideWorkKinds{"update", "evaluation", "checkpoint"};

// Makes the tables in an empty database; leaves any other alone.
absl::Status make_tables_if_empty(const Database& database);

// True if the journal has all columns and tables of the present format. bring_up_to_date() adds them to one
// of the previous format when a run continues it.
absl::StatusOr<bool> is_of_today(const Database& database);
// Whether it has the table of scraps, that of the lengths of shards, or that of the attempts' first events, which
// journals of the present format may lack.
absl::StatusOr<bool> has_scraps(const Database& database);
absl::StatusOr<bool> has_shard_lengths(const Database& database);
absl::StatusOr<bool> has_first_events(const Database& database);
absl::Status bring_up_to_date(const Database& database);

// Errors: FailedPrecondition if the database is no journal, or if a newer Paceline wrote it.
absl::Status check_is_journal(const Database& database, const std::filesystem::path& path);
// Opens a journal. Errors: the same; those of the file.
absl::StatusOr<Database> open_journal(const std::filesystem::path& path, Database::Mode mode);

}  // namespace paceline::store

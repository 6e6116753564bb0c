#include "paceline/records/store/attempt_range.h"

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/journal_schema.h"

namespace paceline::store {

namespace {

// The range from the attempt's first event to that of the next one that has noted its own.
constexpr const char* kNoted =
    "SELECT ifnull((SELECT seq FROM first_events WHERE attempt = ?1), ?2), "
    "ifnull((SELECT seq FROM first_events WHERE attempt > ?1 ORDER BY attempt LIMIT 1), ?3)";

// True if the row before the range is not of an earlier attempt, or the row after it not of a later one. The attempts
// follow each other, so that no other row needs a look.
absl::StatusOr<bool> is_belied(const Database& database, std::string_view table, std::int64_t attempt,
                               const SeqRange& range) {
  return database.has_row(
      fmt::format("SELECT 1 WHERE (SELECT attempt FROM {0} WHERE seq < ?2 ORDER BY seq DESC LIMIT 1) >= ?1 "
                  "OR (SELECT attempt FROM {0} WHERE seq >= ?3 ORDER BY seq LIMIT 1) <= ?1",
                  table),
      attempt, range.first, range.end);
}

}  // namespace

absl::StatusOr<SeqRange> range_of_attempt(const Database& database, std::string_view table,
                                          std::int64_t attempt) {
  const SeqRange all;
  if (attempt == 0) return all;
  PACELINE_ASSIGN_OR_RETURN(const bool are_noted, has_first_events(database));
  if (!are_noted) return all;
  PACELINE_ASSIGN_OR_RETURN(Statement noted, database.prepare(kNoted));
  PACELINE_RETURN_IF_ERROR(noted.start(attempt, all.first, all.end));
  PACELINE_RETURN_IF_ERROR(noted.next().status());
  const SeqRange range{noted.integer(0), noted.integer(1)};
  PACELINE_ASSIGN_OR_RETURN(const bool belied, is_belied(database, table, attempt, range));
  return belied ? all : range;
}

}  // namespace paceline::store

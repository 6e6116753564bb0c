// The part of a journal's table in which the events of one attempt are, so that a read of an attempt does not go over
// all others. For the journal's reader only.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include <absl/status/statusor.h>

#include "paceline/records/store/sqlite.h"

namespace paceline::store {

// The events with numbers in [first, end).
struct SeqRange {
  std::int64_t first = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

// A range that has all rows of the attempt in `table`, and may have others. Everything for all attempts (0), if the
// journal does not say where the attempt began (an earlier version wrote it), or if its rows belie what it says.
// Errors: the database's.
absl::StatusOr<SeqRange> range_of_attempt(const Database& database, std::string_view table,
                                          std::int64_t attempt);

}  // namespace paceline::store

// One row of a journal as values that can have been recorded. For journal_events.cc only. The caller reads
// all columns first and calls sane() then, so that decoding a row reads like the row.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"
#include "paceline/base/metrics.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/policy/sync_policy.h"
#include "paceline/records/store/journal_events.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::store {

class Row {
 public:
  explicit Row(const Statement& row) : row_(row) {}

  std::int64_t integer(int column);
  std::int64_t whole(int column);  // from 0 on
  double real(int column);         // NULL: no number
  bool is_null(int column) const { return row_.is_null(column); }
  std::string text(int column) const { return row_.text(column); }
  Time time(int column) { return Time(Duration(integer(column))); }
  ReplicaId replica(int column) { return ReplicaId(whole32(column)); }
  Clock clock(int column) { return Clock(whole(column)); }
  Version version(int column) { return Version(whole(column)); }
  std::int32_t whole32(int column);  // from 0 on
  // The lease's epoch, begin and end, in adjacent columns.
  // Columns epoch, begin, end; begin and end of the scrap are NULL if there is none.
  Lease lease(int column, int scrap_column);
  // The reason's text and its two numbers, in adjacent columns.
  policy::Reason reason(int column, Texts& texts);

  // NULL: no metrics.
  Metrics metrics(int column);
  // NULL in a journal of the previous format, which has the words `why` only.
  control::FinishCause cause(int column, const std::string& why);

  // True if every value so far was possible.
  bool sane() const { return sane_; }

 private:
  void expect(bool condition) { sane_ = sane_ && condition; }

  const Statement& row_;
  bool sane_ = true;
};

}  // namespace paceline::store

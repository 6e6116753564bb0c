// One row of a journal as values that can have been recorded. For journal_events.cc only. It is asked for
// everything first and for sane() then, so that decoding a row reads like the row.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"
#include "paceline/base/metrics.h"
#include "paceline/base/time.h"
#include "paceline/control/facts.h"
#include "paceline/policy/sync_policy.h"
#include "paceline/store/journal_events.h"
#include "paceline/store/sqlite.h"

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
  // Its epoch, begin and end, in columns beside each other.
  Lease lease(int column);
  // Its text and its two numbers, in the same way.
  policy::Reason reason(int column, Texts& texts);

  // NULL: none.
  Metrics metrics(int column);
  // NULL: of a journal of the format before, which has its words only.
  control::FinishCause cause(int column, const std::string& why);

  // Whether every value so far was one.
  bool sane() const { return sane_; }

 private:
  void expect(bool condition) { sane_ = sane_ && condition; }

  const Statement& row_;
  bool sane_ = true;
};

}  // namespace paceline::store

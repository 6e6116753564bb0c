// The ledger of the time that a run spent lately: the present ledger minus an earlier one. Pure.
#pragma once

#include <deque>
#include <utility>

#include "paceline/records/stats/time_ledger.h"

namespace paceline::ui {

// `before`: an earlier ledger of the same run. No time of the difference is below zero, although time that
// was under way then may belong to another cause since.
report::TimeLedger difference(const report::TimeLedger& now, const report::TimeLedger& before);

// Remembers some ledgers, so that there is always an earlier one.
class LedgerWindow {
 public:
  static constexpr Duration kStep = std::chrono::seconds(5);
  static constexpr std::size_t kSteps = 3;

  // The difference to the oldest remembered ledger; all of `now` while there is none.
  report::TimeLedger of_late(const report::TimeLedger& now);

 private:
  std::deque<report::TimeLedger> kept_;
};

}  // namespace paceline::ui

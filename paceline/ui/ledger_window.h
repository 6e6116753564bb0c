// Where the time of a run went of late: the ledger of now without the one of a while ago. Pure.
#pragma once

#include <deque>
#include <utility>

#include "paceline/report/time_ledger.h"

namespace paceline::ui {

// `before`: of the same run, earlier. No time of the difference is below zero: what was under way then may
// have been found to be something else since.
report::TimeLedger difference(const report::TimeLedger& now, const report::TimeLedger& before);

// Remembers some ledgers, so that there is always one of a while ago.
class LedgerWindow {
 public:
  static constexpr Duration kStep = std::chrono::seconds(5);
  static constexpr std::size_t kSteps = 3;

  // The difference to the oldest one that is remembered; all of it while there is none.
  report::TimeLedger of_late(const report::TimeLedger& now);

 private:
  std::deque<report::TimeLedger> kept_;
};

}  // namespace paceline::ui

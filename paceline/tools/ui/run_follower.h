// One run, followed while it trains: reads the new events of its journal and makes the parts of a page from
// them. One thread. A read costs what is new, at most a piece of it; the parts have bounded size, however long the run and however
// many its devices.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/processes/runs/off_clock.h"
#include "paceline/processes/runs/run_report.h"
#include "paceline/records/exports/prometheus.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/stats/time_stats.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/run_tail.h"
#include "paceline/tools/ui/ledger_window.h"
#include "paceline/tools/ui/moving_lanes.h"
#include "paceline/tools/ui/recent.h"
#include "paceline/tools/ui/run_state.h"
#include "paceline/tools/ui/traffic.h"

namespace paceline::ui {

// The observer's clocks.
struct Clocks {
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
};

class RunFollower {
 public:
  // `apart`: RunTail::Copies'.
  explicit RunFollower(store::RunPaths run, Clocks clocks = {},
                       std::int64_t apart = store::RunTail::Copies{}.apart);
  RunFollower(const RunFollower&) = delete;
  RunFollower& operator=(const RunFollower&) = delete;

  // The most events of one read: after it a thread can look at something else for a moment.
  static constexpr std::int64_t kPiece = 50'000;

  void read(std::int64_t most = kPiece);
  // Whether the latest read left events for the next one.
  bool is_behind() const { return tail_.is_behind(); }
  // Why nothing is shown yet: "reading the run: 37 %". Empty once a read came to the end of what was recorded, until the
  // run goes back.
  std::string reading() const;

  // The parts of the page, by name: head, curves, lanes, devices, groups, events, plan, time, links, memory,
  // servers. Before anything is recorded, and during reading(), there is only the head. live_parts.h describes the contents.
  using Parts = std::map<std::string, report::Json>;
  Parts parts();
  // The parts that a comparison shows: head and curves.
  Parts compared();

  // The run's metrics in Prometheus' text format. Errors: why there are none.
  absl::StatusOr<std::string> metrics();

  // The run's state in a line: "training; update 312 was made 0.4 s ago".
  std::string in_a_line() const;

  const StateOfRun& state() const { return state_; }

 private:
  // Passes everything on to all folds of the run.
  class Folds;
  // `copy`: of the folds; null: begins with folds that have heard nothing. Null if the copy cannot go on.
  absl::StatusOr<control::RunListener*> begin(store::JournalReader& journal,
                                              const control::RunListener* copy);
  absl::Status read_wall(store::JournalReader& journal);
  void look_at_processes();
  void look_at_clock();
  std::optional<double> committed_s() const;
  Time now() const;

  const store::RunPaths run_;
  const Clocks clocks_;
  store::RunTail tail_;
  std::shared_ptr<Folds> folds_;  // null: nothing is recorded
  bool whole_ = true;             // whether the folds have heard all that was recorded at some moment
  LedgerWindow window_;
  Traffic traffic_;
  exports::Highest highest_;
  StateOfRun state_;
  absl::Status trouble_;
  std::optional<runs::FirstRelease> wall_;  // a moment in both the job's time and the wall's
  Time reported_;                           // the job's time of the coordinator's latest report
  struct Seen {
    Time newest;                                   // the newest moment of the record
    Time now;                                      // the job's time when it was seen
    std::chrono::steady_clock::time_point steady;  // our time when it was seen
  };
  std::optional<Seen> seen_;
  struct Committed {
    Time at;
    double unix_s = 0;
  };
  std::optional<Committed> committed_;  // the newest commit, and its time by our clock
  runs::OffClock off_clock_;
};

}  // namespace paceline::ui

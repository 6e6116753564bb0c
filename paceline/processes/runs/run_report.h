// The report of a run folder's journal: the numbers, and the page that a person opens.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/processes/runs/off_clock.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/time_ledger.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

// An existing run folder, opened to be read; the run may still train.
struct OpenedRun {
  store::RunPaths paths;
  store::JournalReader journal;
  report::RunInfo info;
  OffClock off_clock;
  // in a live run: the first release of the last attempt that had one
  std::optional<FirstRelease> last_release;
  report::Json about;  // made by about_run
};

// Errors: not a run, or a journal that cannot be read.
absl::StatusOr<OpenedRun> open_run(const std::string& folder);

struct RunReport {
  OpenedRun run;  // its journal has the texts of the reasons in `history`
  report::Summary summary;
  report::History history;
  report::TimeLedger time, settled;  // made by TimeStats; `time` includes what the job's clock did not see
  // Made by report_json, with "time" of time_json and "about" of about_run.
  report::Json document;
};

// Reads the run's journal: the whole run, even if it was resumed. Errors: not a run, or a journal that cannot
// be read. `more` hears the whole run as well.
absl::StatusOr<RunReport> read_run(const std::string& folder, control::RunListener* more = nullptr);

// A line that people should know of the data; or nothing.
std::string data_note_line(const report::Json& document);

// Writes report.html and summary.json into the folder.
absl::Status write_report(const std::string& folder, const RunReport& report);

}  // namespace paceline::runs

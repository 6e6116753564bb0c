// What a run folder's journal says of the run: the numbers, and the report a person opens.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/control/run_listener.h"
#include "paceline/report/history.h"
#include "paceline/report/json_values.h"
#include "paceline/report/summary.h"
#include "paceline/report/time_ledger.h"
#include "paceline/runs/off_clock.h"
#include "paceline/store/journal_reader.h"
#include "paceline/store/run_folder.h"

namespace paceline::runs {

// A run folder that is there, opened to be read; the run may still train.
struct OpenedRun {
  store::RunPaths paths;
  store::JournalReader journal;
  report::RunInfo info;
  OffClock off_clock;
  std::optional<FirstRelease> last_release;  // of the last attempt that released anybody; live
  report::Json about;                        // of about_run
};

// Errors: not a run, or a journal that cannot be read.
absl::StatusOr<OpenedRun> open_run(const std::string& folder);

struct RunReport {
  OpenedRun run;  // its journal has the texts of the reasons in `history`
  report::Summary summary;
  report::History history;
  report::TimeLedger time, settled;  // of TimeStats; `time` has what the job's clock did not see
  // Of report_json, with "time" of time_json and "about" of about_run.
  report::Json document;
};

// Reads the run's journal: the whole run, however often it was resumed. Errors: not a run, or a journal that
// cannot be read. `more` hears the whole run as well.
absl::StatusOr<RunReport> read_run(const std::string& folder, control::RunListener* more = nullptr);

// What people should know of the data, as a line; or nothing.
std::string data_note_line(const report::Json& document);

// Writes report.html and summary.json into the folder.
absl::Status write_report(const std::string& folder, const RunReport& report);

}  // namespace paceline::runs

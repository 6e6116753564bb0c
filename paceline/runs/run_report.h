// What a run folder's journal says of the run: the numbers, and the report a person opens.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/report/json_values.h"
#include "paceline/report/summary.h"

namespace paceline::runs {

struct RunReport {
  report::Summary summary;
  report::Json document;  // of report_json
};

// Reads the run's journal: the whole run, however often it was resumed. Errors: not a run, or a journal that
// cannot be read.
absl::StatusOr<RunReport> read_run(const std::string& folder);

// Writes report.html and summary.json into the folder.
absl::Status write_report(const std::string& folder, const RunReport& report);

}  // namespace paceline::runs

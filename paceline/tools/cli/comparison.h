// Runs of one job side by side: the result of `paceline compare`, which `paceline report` shows again later.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/processes/runs/run_report.h"
#include "paceline/records/tables/tables.h"

namespace paceline::cli {

struct Comparison {
  std::vector<report::Summary> summaries;
  std::vector<report::Json> documents;  // from report_json
  report::PlannedRuns planned{};

  void add(runs::RunReport report);
};

// The run folders in `folder`, in the order they were made. Empty: it is no comparison.
std::vector<std::string> runs_in(const std::string& folder);

// Reads the journals of all these runs. A run that cannot be reported (for example because it never trained)
// is left out, with a line on standard error. Errors: no run is left.
absl::StatusOr<Comparison> read_comparison(const std::string& folder);

// Writes report.html into the folder.
absl::Status write_comparison(const std::string& folder, const Comparison& comparison);

// Prints the table, and where the report is; with `json` one object for each run.
void print_comparison(const Comparison& comparison, const std::string& folder, bool json);

}  // namespace paceline::cli

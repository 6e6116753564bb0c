// Runs of one job side by side: what `paceline compare` gives, and `paceline report` gives again later.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/runs/run_report.h"

namespace paceline::cli {

struct Comparison {
  std::vector<report::Summary> summaries;
  std::vector<report::Json> documents;  // of report_json

  void add(runs::RunReport report);
};

// The run folders in `folder`, in the order they were made. None: it is no comparison.
std::vector<std::string> runs_in(const std::string& folder);

// Reads the journals of all of them. A run that cannot be reported (it never came to train, say) is left out,
// with a line on standard error. Errors: none is left.
absl::StatusOr<Comparison> read_comparison(const std::string& folder);

// Writes report.html into the folder.
absl::Status write_comparison(const std::string& folder, const Comparison& comparison);

// The table, and where the report is; with `json` an object a run.
void print_comparison(const Comparison& comparison, const std::string& folder, bool json);

}  // namespace paceline::cli

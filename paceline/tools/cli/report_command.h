// `paceline report FOLDER`: makes the report of a run, or of a comparison, again from the journals; or shows
// where its time went.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct ReportOptions {
  std::string folder;  // a run's, or one with several of them
  bool time = false;   // print where the time went; nothing is written
  bool json = false;   // print the time as JSON, one object for each run
};

absl::Status report_command(const ReportOptions& options);

}  // namespace paceline::cli

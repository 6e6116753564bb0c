#include "paceline/tools/cli/report_command.h"
#include "paceline/records/tables/time_table.h"

#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/runs/run_report.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/tools/cli/comparison.h"

namespace paceline::cli {

namespace {

absl::Status report_time(const std::string& folder, bool titled, bool json) {
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(folder));
  if (json) {
    report::Json line = {{"run", folder}, {"policy", report.summary.run.policy}};
    line.update(report.document.at("time"));
    for (const char* of_processes : {"servers", "memory", "links"})
      line[of_processes] = report.document.at(of_processes);
    launch::print(stdout, report::one_line(line) + "\n");
    return absl::OkStatus();
  }
  if (titled) launch::print(stdout, fmt::format("== {} ==\n", report::printable(folder)));
  launch::print(stdout, report::time_table(report.time, report.summary) + (titled ? "\n" : ""));
  return absl::OkStatus();
}

}  // namespace

absl::Status report_command(const ReportOptions& options) {
  const std::vector<std::string> several = runs_in(options.folder);
  if (options.time) {
    for (const std::string& run : several) PACELINE_RETURN_IF_ERROR(report_time(run, true, options.json));
    return several.empty() ? report_time(options.folder, false, options.json) : absl::OkStatus();
  }
  if (!several.empty()) {
    // Runs of different jobs would count as seeds of one job.
    if (!std::filesystem::exists(std::filesystem::path(options.folder) / store::kComparisonFile)) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: has runs of several jobs, which are no comparison; name one of them, for example {}",
          options.folder, several.front()));
    }
    PACELINE_ASSIGN_OR_RETURN(const Comparison comparison, read_comparison(options.folder));
    PACELINE_RETURN_IF_ERROR(write_comparison(options.folder, comparison));
    print_comparison(comparison, options.folder, false);
    return absl::OkStatus();
  }
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(options.folder));
  PACELINE_RETURN_IF_ERROR(runs::write_report(options.folder, report));
  launch::print(stdout, fmt::format("{}/report.html\n", options.folder));
  return absl::OkStatus();
}

}  // namespace paceline::cli

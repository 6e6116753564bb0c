#include "paceline/cli/report_command.h"

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/comparison.h"
#include "paceline/launch/say.h"
#include "paceline/runs/run_report.h"

namespace paceline::cli {

absl::Status report_command(const std::string& folder) {
  if (!runs_in(folder).empty()) {
    PACELINE_ASSIGN_OR_RETURN(const Comparison comparison, read_comparison(folder));
    PACELINE_RETURN_IF_ERROR(write_comparison(folder, comparison));
    print_comparison(comparison, folder, false);
    return absl::OkStatus();
  }
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(folder));
  PACELINE_RETURN_IF_ERROR(runs::write_report(folder, report));
  launch::say(stdout, fmt::format("{}/report.html\n", folder));
  return absl::OkStatus();
}

}  // namespace paceline::cli

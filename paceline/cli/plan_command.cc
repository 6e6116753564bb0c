#include "paceline/cli/plan_command.h"

#include <chrono>

#include "paceline/base/status_macros.h"
#include "paceline/cli/cluster_problem.h"
#include "paceline/cli/output.h"
#include "paceline/cli/standard_input.h"
#include "paceline/launch/print.h"
#include "paceline/report/plan_report.h"
#include "paceline/runs/job_file.h"

namespace paceline::cli {

absl::Status plan_command(const PlanOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_output(options.json));
  PACELINE_RETURN_IF_ERROR(check_output(options.write_profile));
  PACELINE_ASSIGN_OR_RETURN(const config::ClusterFile cluster, read_cluster(options.cluster_file));
  if (!options.write_profile.empty()) {
    PACELINE_RETURN_IF_ERROR(
        write_output(options.write_profile, config::profile_text(cluster.problem.model)));
  }
  const auto start = std::chrono::steady_clock::now();
  const auto planned = planner::make_plan(cluster.problem, {.seed = cluster.seed});
  const std::chrono::duration<double, std::milli> millis = std::chrono::steady_clock::now() - start;
  if (!planned.ok()) return runs::about_file(shown_name(options.cluster_file), planned.status());
  if (options.json.empty()) {
    launch::print(stdout, report::plan_text(cluster.problem, *planned));
    return absl::OkStatus();
  }
  return write_output(options.json,
                      report::one_line(report::plan_json(cluster.problem, *planned, millis.count())) + "\n");
}

}  // namespace paceline::cli

#include "paceline/tools/cli/plan_command.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/control_groups.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/pages/plan_report.h"
#include "paceline/tools/cli/cluster_problem.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/standard_input.h"

namespace paceline::cli {

namespace {

// The most devices that one host has and that can compute at the same time on this machine. Devices of another host
// do not slow each other down.
int devices_of_a_host(const planner::Cluster& cluster) {
  std::map<std::int32_t, int> count;
  int most = 1;
  for (const planner::Device& device : cluster.devices)
    most = std::max(most, ++count[cluster.on_one_host ? 0 : device.host]);
  return std::min(most, usable_processors());
}

// Whether an option says how a program is measured.
bool says_how_to_measure(const ProfileOptions& measured) {
  return measured.micro_batch != 0 || measured.threads != ProfileOptions().threads ||
         !measured.program.python.empty();
}

// The program or the file that has the model's layers is named, unless the cluster file has them.
absl::StatusOr<config::ClusterFile> read_named(PlanOptions& options) {
  if (options.cluster_file.empty()) options.cluster_file = std::exchange(options.file, "");
  if (options.cluster_file.empty())
    return absl::InvalidArgumentError("name a cluster file; see paceline plan --help");
  if (options.cluster_file.ends_with(".py"))
    return absl::InvalidArgumentError(
        fmt::format("{0}: is a program; name the cluster too: paceline plan {0} --cluster CLUSTER.toml",
                    options.cluster_file));
  if (options.file.empty() && !options.measured.program.args.empty())
    return absl::InvalidArgumentError("the words after -- are a program's; name one, and --cluster");
  if (options.file.empty() && says_how_to_measure(options.measured))
    return absl::InvalidArgumentError(
        "--micro-batch, --threads and --python are about a program that is measured; name one, and "
        "--cluster");
  if (!options.file.empty() && !options.profile.empty())
    return absl::InvalidArgumentError(fmt::format(
        "--profile {} and the program {} both name a model; leave one out", options.profile, options.file));
  if (!options.profile.empty()) {
    PACELINE_ASSIGN_OR_RETURN(planner::ModelProfile model, read_profile(options.profile));
    return read_cluster(options.cluster_file, std::move(model));
  }
  if (options.file.empty()) return read_cluster(options.cluster_file);
  // A mistake in the file is said before the program is measured.
  PACELINE_ASSIGN_OR_RETURN(const config::ClusterFile alone,
                            read_cluster(options.cluster_file, planner::ModelProfile{}));
  options.measured.program.program = options.file;
  if (options.measured.micro_batch == 0)
    options.measured.micro_batch = std::min(alone.problem.micro_batches.back(), kUsualMicroBatch);
  options.measured.processes = devices_of_a_host(alone.problem.cluster);
  PACELINE_ASSIGN_OR_RETURN(MeasuredProgram measured, measure_program(options.measured));
  return read_cluster(options.cluster_file, std::move(measured.profile));
}

}  // namespace

absl::Status plan_command(PlanOptions options) {
  PACELINE_RETURN_IF_ERROR(check_output(options.json));
  PACELINE_RETURN_IF_ERROR(check_output(options.write_profile));
  PACELINE_ASSIGN_OR_RETURN(const config::ClusterFile cluster, read_named(options));
  if (!options.write_profile.empty()) {
    PACELINE_RETURN_IF_ERROR(
        write_output(options.write_profile, config::profile_text(cluster.problem.model)));
  }
  const auto start = std::chrono::steady_clock::now();
  const auto planned = planner::make_plan(cluster.problem, {.seed = cluster.seed});
  const std::chrono::duration<double, std::milli> millis = std::chrono::steady_clock::now() - start;
  if (!planned.ok()) return runs::about_file(shown_name(options.cluster_file), planned.status());
  const std::optional<planner::SecondBest> second = planner::second_best(cluster.problem, *planned);
  if (options.json.empty()) {
    launch::print(stdout, report::plan_text(cluster.problem, *planned, second));
    return absl::OkStatus();
  }
  const report::Json json = report::plan_json(cluster.problem, *planned, second, millis.count());
  return write_output(options.json, report::one_line(json) + "\n");
}

}  // namespace paceline::cli

#include "paceline/tools/cli/simulate_command.h"

#include <chrono>
#include <utility>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/program_version.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/runs/about_run.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/pages/compared_runs.h"
#include "paceline/records/pages/html.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/pages/report_json.h"
#include "paceline/records/tables/tables.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/planned_simulation.h"
#include "paceline/tools/cli/standard_input.h"

namespace paceline::cli {

namespace {

constexpr char kUsualPolicies[] = "bsp,asp,ssp:3,dssp:3-15,elastic-bsp:15";

// Whether the file is a cluster with [planner]. If there are several files, all have to be.
absl::StatusOr<bool> all_have_planners(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    PACELINE_ASSIGN_OR_RETURN(const bool planned, has_planner(file));
    if (planned) continue;
    if (files.size() == 1) return false;
    return absl::InvalidArgumentError(
        fmt::format("{}: has no [planner]; several files at once are clusters to plan", shown_name(file)));
  }
  return true;
}

report::Json simulated_json(const sim::Simulated& simulated, const sim::Scenario& scenario, double wall_s) {
  const report::Summary& summary = simulated.summary;
  report::Json iterations = report::Json::array();
  for (const report::ReplicaSummary& replica : summary.replicas) iterations.push_back(replica.iterations);
  report::Json object = {{"policy", summary.run.policy},
                         {"seed", scenario.cluster.seed},
                         {"replicas", scenario.cluster.places.size()},
                         {"iterations", summary.iterations},
                         {"virtual_s", summary.elapsed_s},
                         {"samples", summary.samples},
                         {"commits", summary.commits},
                         {"wait_share", report::json_number(summary.wait_share)},
                         {"gap_max", summary.gap_max},
                         {"staleness_mean", report::json_number(summary.staleness_mean)},
                         {"staleness_max", summary.staleness_max},
                         {"iterations_per_replica", std::move(iterations)},
                         {"wall_s", wall_s},
                         {"trace_hash", simulated.trace_hash}};
  if (summary.updates) {
    object["update_busy_share"] = summary.updates->busy_share;
    object["update_queue_mean_s"] = summary.updates->queued_mean_s;
  }
  return object;
}

// A description of the simulation, for the page.
report::Json about_simulation(const std::string& file, const std::vector<policy::PolicySpec>& policies,
                              const sim::Scenario& scenario, std::int64_t seeds) {
  const std::uint64_t seed = scenario.cluster.seed;
  report::Json list = report::Json::array();
  const auto add = [&](const char* name, const std::string& text) { runs::add_about(list, name, text); };
  add("scenario", file);
  add("replicas", fmt::format("{}", scenario.cluster.places.size()));
  add("length", scenario.iterations > 0 ? counted(scenario.iterations, "iteration")
                                        : counted(scenario.samples, "sample"));
  add("policies", absl::StrJoin(policies, ", ", [](std::string* out, const policy::PolicySpec& policy) {
        *out += policy::to_string(policy);
      }));
  if (seeds == 1) add("seed", fmt::format("{}", seed));
  if (seeds > 1) add("seeds", fmt::format("{} to {}", seed, seed + static_cast<std::uint64_t>(seeds) - 1));
  runs::add_origin(list, runs::this_origin(kProgramVersion));
  return list;
}

}  // namespace

absl::StatusOr<int> simulate_command(const SimulateOptions& options) {
  const std::string file = shown_name(options.files.front());
  PACELINE_RETURN_IF_ERROR(check_output(options.json_file));
  PACELINE_RETURN_IF_ERROR(check_output(options.html_file));
  PACELINE_ASSIGN_OR_RETURN(const bool planned, all_have_planners(options.files));
  if (planned && options.policies) {
    return absl::InvalidArgumentError(fmt::format(
        "--policies: {} has a [planner], whose trainings are bulk-synchronous; leave it out", file));
  }
  if (planned && options.seeds > 1)
    return absl::InvalidArgumentError(fmt::format("--seeds: {} has a [planner], which takes one seed", file));
  if (planned && !options.html_file.empty())
    return absl::InvalidArgumentError(fmt::format("--html: {} has a [planner]; a page shows policies", file));
  if (planned) return simulate_planned(options.files, options.json_file);
  const auto parsed = policy::parse_policies(options.policies.value_or(kUsualPolicies));
  if (!parsed.ok()) return runs::about_file("--policies", parsed.status());
  const std::vector<policy::PolicySpec>& policies = *parsed;
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(options.files.front()));
  PACELINE_ASSIGN_OR_RETURN(const sim::Scenario scenario, sim::parse_scenario(text, file));
  for (const policy::PolicySpec& policy : policies) {
    const auto fits =
        policy::check_replicas(policy, static_cast<std::int64_t>(scenario.cluster.places.size()));
    if (!fits.ok()) return runs::about_file("--policies", fits);
  }
  const report::Json what = about_simulation(file, policies, scenario, options.seeds);
  std::vector<report::Json> objects;
  std::vector<report::Summary> summaries;
  std::vector<report::Json> documents;
  for (const policy::PolicySpec& policy : policies) {
    sim::Scenario seeded = scenario;
    for (std::int64_t i = 0; i < options.seeds; ++i, ++seeded.cluster.seed) {
      const auto start = std::chrono::steady_clock::now();
      PACELINE_ASSIGN_OR_RETURN(sim::Simulated simulated,
                                sim::simulate(seeded, policy, !options.html_file.empty()));
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      objects.push_back(simulated_json(simulated, seeded, wall.count()));
      simulated.summary.run.title = file;
      simulated.summary.run.seed = seeded.cluster.seed;
      if (simulated.history) {
        documents.push_back(report::report_json(simulated.summary, *simulated.history));
        documents.back()["about"] = what;
      }
      summaries.push_back(std::move(simulated.summary));
    }
  }
  if (!options.html_file.empty()) {
    PACELINE_RETURN_IF_ERROR(write_output(
        options.html_file, report::render_comparison(report::compared(summaries, std::move(documents)))));
  }
  PACELINE_RETURN_IF_ERROR(
      show_with_json(report::simulation_table(summaries), options.json_file, report::lines(objects)));
  return 0;
}

}  // namespace paceline::cli

#include "paceline/tools/cli/planned_simulation.h"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/pages/plan_report.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"
#include "paceline/simulation/sim/planned_run.h"
#include "paceline/tools/cli/cluster_problem.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/standard_input.h"

namespace paceline::cli {

namespace {

using planner::Budget;
using sim::PlannedRun;

double mean_ms(const PlannedRun& run) { return run.elapsed_ms / static_cast<double>(run.batches); }

planner::Costs mean_costs(const PlannedRun& run) {
  planner::Costs costs = run.costs;
  for (double& cost : costs) cost /= static_cast<double>(run.batches);
  return costs;
}

// A file and its trainings, ours first.
struct SimulatedCluster {
  std::string name;
  std::vector<Budget> budgets;
  std::vector<PlannedRun> runs;
};

report::Json planned_run_json(const PlannedRun& run, const SimulatedCluster& cluster) {
  report::Json queues = report::Json::object();
  for (std::size_t k = 0; k < run.queue_max.size(); ++k)
    queues[planner::name_of(cluster.budgets[k].kind)] = run.queue_max[k];
  report::Json json = {
      {"cluster", cluster.name},
      {"plan", run.name},
      {"batches", run.batches},
      {"virtual_s", run.elapsed_ms / 1000},
      {"batch_ms_mean", run.batches > 0 ? report::Json(mean_ms(run)) : report::Json(nullptr)},
      {"cost_mean", run.batches > 0 ? report::costs_json(mean_costs(run)) : report::Json(nullptr)},
      {"queue_max", std::move(queues)},
      {"replans", run.replans},
      {"migrations", run.migrations},
      {"predicted_error", run.predicted_error}};
  if (!run.ended.ok()) json["ended"] = std::string(run.ended.message());
  return json;
}

std::string table(const std::vector<PlannedRun>& runs) {
  report::TextTable table(
      {"", "batches", "batch ms", "money", "J", "MB", "looks", "migrations", "error %", ""},
      report::TextTable::LastColumn::kWords);
  for (const PlannedRun& run : runs) {
    const std::string ended = report::printable(std::string(run.ended.message()));
    if (run.batches == 0) {
      table.add({run.name, "0", "–", "–", "–", "–", "–", "–", "–", ended});
      continue;
    }
    const planner::Costs costs = mean_costs(run);
    table.add({run.name, fmt::format("{}", run.batches), fmt::format("{:.4g}", mean_ms(run)),
               fmt::format("{:.4g}", costs[0]), fmt::format("{:.4g}", costs[1]),
               fmt::format("{:.4g}", costs[2] / 1e6), fmt::format("{}", run.replans),
               fmt::format("{}", run.migrations), fmt::format("{:.1f}", 100 * run.predicted_error), ended});
  }
  return table.text();
}

absl::StatusOr<SimulatedCluster> run_file(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const config::ClusterFile cluster, read_cluster(file));
  auto runs = sim::run_planned(cluster);
  if (!runs.ok()) return runs::about_file(shown_name(file), runs.status());
  return SimulatedCluster{std::filesystem::path(shown_name(file)).stem().string(), cluster.problem.budgets,
                          *std::move(runs)};
}

bool is_whole(const PlannedRun& run) { return run.batches > 0 && run.ended.ok(); }

// "495 (−32 %)": the run's value, and how far ours is below it. A dash if the run does not come to the end; no
// comparison if ours does not.
std::string against(const PlannedRun& run, const PlannedRun& ours) {
  if (!is_whole(run)) return "–";
  if (&run == &ours || !is_whole(ours)) return fmt::format("{:.4g}", mean_ms(run));
  const double less = 1 - mean_ms(ours) / mean_ms(run);
  return fmt::format("{:.4g} ({}{:.0f} %)", mean_ms(run), less >= 0 ? "−" : "+", 100 * std::abs(less));
}

std::string side_by_side(const std::vector<SimulatedCluster>& clusters) {
  std::vector<std::string> head{""};
  std::vector<std::vector<std::string>> rows;
  for (const SimulatedCluster& cluster : clusters) {
    head.push_back(cluster.name);
    rows.resize(cluster.runs.size());
    for (std::size_t i = 0; i < cluster.runs.size(); ++i) {
      if (rows[i].empty()) rows[i].push_back(cluster.runs[i].name);
      rows[i].push_back(against(cluster.runs[i], cluster.runs.front()));
    }
  }
  report::TextTable table(std::move(head), report::TextTable::LastColumn::kNumbers);
  for (std::vector<std::string>& row : rows) table.add(std::move(row));
  return table.markdown();
}

}  // namespace

absl::StatusOr<bool> has_planner(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(file));
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, config::parse_toml(text, shown_name(file)));
  return root.contains("planner");
}

absl::StatusOr<int> simulate_planned(const std::vector<std::string>& files, const std::string& json_file) {
  std::vector<SimulatedCluster> clusters;
  std::vector<report::Json> objects;
  for (const std::string& file : files) {
    PACELINE_ASSIGN_OR_RETURN(clusters.emplace_back(), run_file(file));
    for (const PlannedRun& run : clusters.back().runs)
      objects.push_back(planned_run_json(run, clusters.back()));
  }
  PACELINE_RETURN_IF_ERROR(
      show_with_json(clusters.size() > 1 ? side_by_side(clusters) : table(clusters.front().runs), json_file,
                     report::lines(objects)));
  return 0;
}

}  // namespace paceline::cli

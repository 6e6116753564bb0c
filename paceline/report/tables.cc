#include <cmath>
#include "paceline/report/tables.h"

#include <algorithm>

#include "paceline/planner/planner.h"
#include "paceline/report/text_table.h"
#include "paceline/report/words.h"

namespace paceline::report {

namespace {

std::string fixed(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : kUnknownCell;
}
std::string percent_or_unknown(const std::optional<double>& share, int decimals) {
  return share ? percent(*share, decimals) : kUnknownCell;
}
std::string seconds_or_unknown(const std::optional<double>& seconds) {
  return seconds ? seconds_text(*seconds) : kUnknownCell;
}

std::string state(const ReplicaSummary& replica) {
  return replica.why.empty() ? to_string(replica.doing)
                             : fmt::format("{}: {}", to_string(replica.doing), printable(replica.why));
}

std::vector<std::string> row(const ReplicaSummary& replica) {
  return {printable(replica.name),
          with_thousands(replica.iterations),
          with_thousands(replica.samples),
          fixed(replica.mean_compute_s, 3),
          percent_or_unknown(replica.wait_share, 1),
          fixed(replica.mean_staleness, 2),
          state(replica)};
}

std::string plan_lines(const PlanSummary& plan, const RunInfo& run) {
  std::string text =
      fmt::format("plan: {}, {}\n", printable(planner::in_words(run.devices, run.layers, plan.plan)),
                  counted(plan.re_plans, "re-plan"));
  if (plan.batches.count > 0) {
    text +=
        fmt::format("a batch: {:.4g} ms measured, {:.4g} predicted, {} % off on average over {} batches\n",
                    *plan.batches.measured_mean_ms(), *plan.batches.predicted_mean_ms(),
                    percent_or_unknown(plan.error, 1), with_thousands(plan.batches.count));
  }
  if (!plan.spending) return text;
  return text +
         fmt::format("budget: {:.4g} spent of {:.4g}; run ahead of by {:.3g} batches now, {:.3g} at most\n",
                     plan.spending->cost, plan.spending->allowed, plan.spending->queue, plan.queue_max);
}

std::string totals(const Summary& summary) {
  const GroupSummary& groups = summary.groups;
  std::string text = fmt::format(
      "{}: {} of {} samples in {} {}, {} samples/s, {} commits{}, waiting {} %, largest gap {}",
      printable(summary.run.policy), with_thousands(summary.samples),
      with_thousands(summary.run.total_samples), seconds_text(summary.elapsed_s),
      seconds_of(summary.run.world), rate_text(summary.samples_per_s), with_thousands(summary.commits),
      groups.between ? fmt::format(" of {} gradients", fixed(groups.size_mean, 2)) : "",
      percent_or_unknown(summary.wait_share, 1), summary.gap_max);
  if (summary.last_evaluation) {
    const control::Evaluated& last = *summary.last_evaluation;
    if (!std::isnan(last.accuracy)) text += fmt::format(", test accuracy {} %", percent(last.accuracy, 2));
    if (std::isnan(last.accuracy) && !std::isnan(last.loss)) text += fmt::format(", test loss {:.4g}", last.loss);
    for (const auto& [name, value] : last.metrics) text += fmt::format(", {} {:.4g}", printable(name), value);
  }
  if (summary.run.attempts > 1) {
    text += fmt::format(", {} attempts, {} lost", with_thousands(summary.run.attempts),
                        counted(summary.run.lost_commits, "commit"));
  }
  return text + "\n" + (summary.plan ? plan_lines(*summary.plan, summary.run) : "");
}

std::vector<std::string> row(const Summary& run, bool fastest) {
  const auto& last = run.last_evaluation;
  return {printable(run.run.policy) + (fastest ? " *" : ""),
          seconds_or_unknown(run.time_to_target_s()),
          rate_text(run.samples_per_s),
          percent_or_unknown(run.wait_share, 1),
          fmt::format("{}", run.gap_max),
          fixed(run.staleness_mean, 2),
          run.staleness_mean ? fmt::format("{}", run.staleness_max) : kUnknownCell,
          fixed(last ? std::optional(last->loss) : std::nullopt, 4),
          percent_or_unknown(last ? std::optional(last->accuracy) : std::nullopt, 2),
          seconds_text(run.elapsed_s)};
}

}  // namespace

std::string replica_table(const Summary& summary, std::size_t most) {
  TextTable table({"replica", "iterations", "samples", "compute (s)", "waiting (%)", "staleness", "state"},
                  TextTable::LastColumn::kWords);
  const std::size_t shown = std::min(most, summary.replicas.size());
  for (std::size_t i = 0; i < shown; ++i) table.add(row(summary.replicas[i]));
  std::string text = table.text();
  if (shown < summary.replicas.size()) {
    text += fmt::format("and {} more replicas\n", summary.replicas.size() - shown);
  }
  return text + totals(summary);
}

std::optional<std::size_t> fastest_to_target(const std::vector<Summary>& runs) {
  std::optional<std::size_t> fastest;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].met_target) continue;
    if (!fastest || runs[i].met_target->at < runs[*fastest].met_target->at) fastest = i;
  }
  return fastest;
}

std::string comparison_table(const std::vector<Summary>& runs) {
  if (runs.empty()) return "nothing to compare\n";
  const auto& target = runs.front().run.target;
  TextTable table({"policy", "to target (s)", "samples/s", "waiting (%)", "gap max", "staleness mean", "max",
                   "test loss", "accuracy (%)", seconds_of(runs.front().run.world)},
                  TextTable::LastColumn::kNumbers);
  const auto fastest = fastest_to_target(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) table.add(row(runs[i], i == fastest));
  std::string text = table.text();
  if (fastest) text += fmt::format("* first to reach the target, {}\n", to_string(*target));
  return text;
}

std::string simulation_table(const std::vector<Summary>& runs) {
  TextTable table({"policy", "iterations/s", "samples/s", "waiting (%)", "gap max", "staleness mean", "max",
                   "commits", seconds_of(World::kSimulated)},
                  TextTable::LastColumn::kNumbers);
  for (const Summary& run : runs) {
    const double rate = run.elapsed_s > 0 ? static_cast<double>(run.iterations) / run.elapsed_s : 0;
    table.add({printable(run.run.policy), fmt::format("{:.3f}", rate), rate_text(run.samples_per_s),
               percent_or_unknown(run.wait_share, 1), with_thousands(run.gap_max),
               fixed(run.staleness_mean, 2), with_thousands(run.staleness_max), with_thousands(run.commits),
               seconds_text(run.elapsed_s)});
  }
  return table.text();
}

}  // namespace paceline::report

#include "paceline/records/tables/tables.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/ranges.h>

#include "paceline/base/counted.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/records/tables/missed_paces.h"
#include "paceline/records/tables/ranking.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"

namespace paceline::report {

namespace {

std::string fixed(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : kUnknownCell;
}
std::string percent_or_unknown(const std::optional<double>& share, int decimals) {
  return share ? percent(*share, decimals) : kUnknownCell;
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

// "12.3 MB": the units in which budgets are written.
std::string cost_text(const RunInfo& run, double cost) {
  if (run.budget == planner::CostKind::kCrossSite) return fmt::format("{:.4g} MB", cost / 1e6);
  return fmt::format("{:.4g}{}", cost, run.budget == planner::CostKind::kEnergy ? " J" : "");
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
         fmt::format("budget: {} spent of {}; overspent by {:.3g} batches' worth now, {:.3g} at most\n",
                     cost_text(run, plan.spending->cost), cost_text(run, plan.spending->allowed),
                     plan.spending->queue, plan.queue_max);
}

std::string totals(const Summary& summary) {
  const GroupSummary& groups = summary.groups;
  std::string text =
      fmt::format("{}: {}{} samples in {} {}, {} samples/s, {} commits{}, waiting {} %, largest gap {}",
                  printable(summary.run.policy), with_thousands(summary.samples),
                  summary.run.total_samples > 0 ? " of " + with_thousands(summary.run.total_samples) : "",
                  seconds_text(summary.elapsed_s), seconds_of(summary.run.world),
                  rate_text(summary.samples_per_s), with_thousands(summary.commits),
                  groups.between ? fmt::format(" of {} gradients", fixed(groups.size_mean, 2)) : "",
                  percent_or_unknown(summary.wait_share, 1), summary.gap_max);
  if (summary.last_evaluation) {
    const control::Evaluated& last = *summary.last_evaluation;
    if (!std::isnan(last.accuracy)) text += fmt::format(", test accuracy {} %", percent(last.accuracy, 2));
    if (std::isnan(last.accuracy) && !std::isnan(last.loss))
      text += fmt::format(", test loss {:.4g}", last.loss);
    for (const auto& [name, value] : last.metrics) text += fmt::format(", {} {:.4g}", printable(name), value);
  }
  if (summary.run.attempts > 1) {
    text += fmt::format(", {} attempts, {} lost", with_thousands(summary.run.attempts),
                        counted(summary.run.lost_commits, "commit"));
  }
  text += "\n" + (summary.plan ? plan_lines(*summary.plan, summary.run) : "");
  // There is nothing to say if no gradient was late.
  if (const auto& used = summary.run.used_weights; used && (used->most > 0 || used->most_bound > 0)) {
    text += fmt::format(
        "late gradients{}: until a gradient was committed, the weights moved by {:.3g} G on average and by "
        "{:.3g} G at most; theory allows {:.3g} G and {:.3g} G. G = {:.3g} is the largest norm of a "
        "gradient\n",
        summary.run.attempts > 1 ? " of the latest attempt" : "", used->mean, used->most, used->mean_bound,
        used->most_bound, used->gradient);
  }
  const std::string missed = missed_paces(summary);
  return missed.empty() ? text : fmt::format("{}paces not held: {}; {}\n", text, missed, kPaceAdvice);
}

// A number in a policy's column: with several seeds "12.3 ± 0.4", and the number of runs that have it if some
// do not. `each`: the number of runs that the policy is to have.
std::string cell(const RunGroup& group, const ValueOf& value, const std::function<std::string(double)>& text,
                 std::size_t each = 0) {
  const std::optional<Spread> all = spread(group, value);
  if (!all) return kUnknownCell;
  std::string cell = text(all->mean);
  if (all->count > 1) cell += " ± " + text(all->error);
  const std::size_t wanted = std::max(each, group.runs.size());
  if (all->count < wanted) cell += fmt::format(" ({} of {})", all->count, wanted);
  return cell;
}

std::string most(const RunGroup& group, std::int64_t Summary::*number) {
  std::int64_t all = 0;
  for (const Summary* run : group.runs) all = std::max(all, run->*number);
  return with_thousands(all);
}

// The text of a number with `count` decimals.
std::function<std::string(double)> decimals(int count) {
  return [count](double value) { return fixed(value, count); };
}
std::string digits4(double value) { return fmt::format("{:.4g}", value); }
std::function<std::string(double)> percents(int count) {
  return [count](double value) { return percent(value, count); };
}

std::vector<std::string> simulation_row(const RunGroup& group, bool updates) {
  const auto of = [&](const ValueOf& value, const std::function<std::string(double)>& text) {
    return cell(group, value, text);
  };
  const auto rate = [](const Summary& run) {
    return std::optional(run.elapsed_s > 0 ? static_cast<double>(run.iterations) / run.elapsed_s : 0);
  };
  const auto count = [](double value) { return with_thousands(std::llround(value)); };
  std::vector<std::string> cells = {
      printable(group.policy),
      of(rate, decimals(3)),
      of([](const Summary& run) { return std::optional(run.samples_per_s); }, rate_text),
      of([](const Summary& run) { return run.wait_share; }, percents(1)),
      most(group, &Summary::gap_max),
      of([](const Summary& run) { return run.staleness_mean; }, decimals(2)),
      most(group, &Summary::staleness_max),
      of([](const Summary& run) { return std::optional(static_cast<double>(run.commits)); }, count),
      of([](const Summary& run) { return std::optional(run.elapsed_s); }, seconds_text)};
  if (!updates) return cells;
  const auto of_updates = [](double UpdateSummary::*number, double times) {
    return [number, times](const Summary& run) {
      return run.updates ? std::optional(times * (*run.updates).*number) : std::nullopt;
    };
  };
  cells.push_back(of(of_updates(&UpdateSummary::busy_share, 1), percents(1)));
  cells.push_back(of(of_updates(&UpdateSummary::queued_mean_s, 1000), decimals(1)));
  return cells;
}

std::vector<std::string> row(const RunGroup& group, const PlannedRuns& planned, bool fastest) {
  const auto of = [&](const ValueOf& value, const std::function<std::string(double)>& text) {
    return cell(group, value, text, planned.each);
  };
  // The value of a run that came to its end.
  const auto end = [&](const ValueOf& value) {
    return [value, planned](const Summary& run) {
      return came_to_its_end(run, planned) ? value(run) : std::nullopt;
    };
  };
  const auto last = [&](double control::Evaluated::*number) {
    return end([number](const Summary& run) {
      return run.last_evaluation ? std::optional((*run.last_evaluation).*number) : std::nullopt;
    });
  };
  const bool any_staleness = group.runs.front()->staleness_mean.has_value();
  return {printable(group.policy) + (fastest ? " *" : ending_mark(group, planned)),
          of([](const Summary& run) { return run.time_to_target_s(); }, seconds_text),
          of([](const Summary& run) { return std::optional(run.samples_per_s); }, rate_text),
          of([](const Summary& run) { return run.wait_share; }, percents(1)),
          most(group, &Summary::gap_max),
          of([](const Summary& run) { return run.staleness_mean; }, decimals(2)),
          any_staleness ? most(group, &Summary::staleness_max) : kUnknownCell,
          of(last(&control::Evaluated::loss), digits4),
          of(last(&control::Evaluated::accuracy), percents(2)),
          of(end([](const Summary& run) { return std::optional(run.elapsed_s); }), seconds_text)};
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

bool came_to_its_end(const Summary& run, const PlannedRuns& planned) {
  return run.is_whole() || (planned.all == 0 && !run.run.diverged);
}

std::string ending_mark(const RunGroup& group, const PlannedRuns& planned) {
  const auto count = [&](bool (*of)(const Summary&)) {
    return static_cast<std::size_t>(
        std::count_if(group.runs.begin(), group.runs.end(), [&](const Summary* run) { return of(*run); }));
  };
  const std::size_t diverged = count([](const Summary& run) { return run.run.diverged; });
  const std::size_t over = count([](const Summary& run) { return run.is_over(); });
  const std::size_t wanted = std::max(planned.each, group.runs.size());
  const std::size_t unfinished = planned.all == 0 ? 0 : wanted - over;
  if (diverged + unfinished == 0) return "";
  if (wanted == 1) return diverged > 0 ? " (diverged)" : " (unfinished)";
  std::vector<std::string> parts;
  if (diverged > 0) parts.push_back(fmt::format("{} diverged", diverged));
  if (unfinished > 0) parts.push_back(fmt::format("{} unfinished", unfinished));
  return fmt::format(" ({})", fmt::join(parts, ", "));
}

ComparisonRows comparison_rows(const std::vector<Summary>& runs, const PlannedRuns& planned) {
  ComparisonRows rows;
  rows.head = {
      "policy",         "to target (s)", "samples/s", "waiting (%)",  "gap max",
      "staleness mean", "max",           "test loss", "accuracy (%)", seconds_of(runs.front().run.world)};
  const Ranking ranking = rank(runs, planned);
  for (const RunGroup& group : groups_of(runs))
    rows.rows.push_back(row(group, planned, group.policy == ranking.fastest));
  return rows;
}

std::string comparison_table(const std::vector<Summary>& runs, const PlannedRuns& planned) {
  if (runs.empty()) return "nothing to compare\n";
  ComparisonRows rows = comparison_rows(runs, planned);
  TextTable table(std::move(rows.head), TextTable::LastColumn::kNumbers);
  for (std::vector<std::string>& cells : rows.rows) table.add(std::move(cells));
  const Ranking ranking = rank(runs, planned);
  std::string text = table.text();
  for (std::size_t i = 0; i < ranking.verdict.size(); ++i)
    text += fmt::format("{}{}\n", i == 0 && ranking.fastest ? "* " : "", ranking.verdict[i]);
  return text;
}

std::string simulation_table(const std::vector<Summary>& runs) {
  const bool updates = std::any_of(runs.begin(), runs.end(), [](const Summary& run) { return run.updates; });
  std::vector<std::string> head = {"policy",      "iterations/s", "samples/s",
                                   "waiting (%)", "gap max",      "staleness mean",
                                   "max",         "commits",      seconds_of(World::kSimulated)};
  if (updates) head.insert(head.end(), {"updating (%)", "queue (ms)"});
  TextTable table(std::move(head), TextTable::LastColumn::kNumbers);
  for (const RunGroup& group : groups_of(runs)) table.add(simulation_row(group, updates));
  return table.text();
}

}  // namespace paceline::report

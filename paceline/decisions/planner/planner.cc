#include "paceline/decisions/planner/planner.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/partition.h"
#include "paceline/decisions/planner/shared_stages.h"
#include "paceline/decisions/planner/what_fits.h"

namespace paceline::planner {

namespace {

// If a pipeline has at most this many devices, every way to share stages is tried.
constexpr std::size_t kMostSharings = 8;

const std::string& name_of_device(const Problem& problem, std::int32_t n) {
  return problem.cluster.devices[static_cast<std::size_t>(n)].name;
}

std::string amount(CostKind kind, double value) {
  switch (kind) {
    case CostKind::kMoney:
      return fmt::format("{:.4g} (money)", value);
    case CostKind::kEnergy:
      return fmt::format("{:.4g} J", value);
    case CostKind::kCrossSite:
      return fmt::format("{:.4g} MB between sites", value / 1e6);
  }
  return "";
}

std::vector<BaselineResult> weighed_baselines(const Evaluator& evaluator) {
  std::vector<BaselineResult> results;
  for (Baseline& baseline : baselines(evaluator.model())) {
    BaselineResult result{std::move(baseline.name), std::move(baseline.plan), {}};
    if (result.plan.ok()) result.evaluation = evaluator.weigh(*result.plan);
    results.push_back(std::move(result));
  }
  return results;
}

absl::StatusOr<std::vector<Plan>> starts_of(const CostModel& model,
                                            const std::vector<BaselineResult>& baselines) {
  std::vector<Plan> starts;
  for (const BaselineResult& baseline : baselines) {
    if (baseline.plan.ok()) starts.push_back(*baseline.plan);
  }
  absl::StatusOr<Plan> any = any_plan(model);
  if (any.ok()) starts.push_back(*std::move(any));
  if (starts.empty()) return any.status();
  return starts;
}

absl::Status with_way_out(const Problem& problem, const absl::Status& error) {
  const std::string way_out = what_would_fit(problem);
  if (way_out.empty()) return error;
  return {error.code(), fmt::format("{}; {}", std::string(error.message()), way_out)};
}

// No plan keeps the budgets: the least that each broken one would have to be, if it were the only one.
absl::Status budget_too_small(const CostModel& model, const std::vector<Plan>& starts, const Evaluation& best,
                              const SearchOptions& options) {
  const Problem& problem = model.problem();
  for (const Budget& budget : problem.budgets) {
    if (best.costs[budget.index()] <= budget.allowed(best.batch_ms) * (1 + 1e-9)) continue;
    Problem alone = problem;
    alone.budgets = {budget};
    // So little that nothing keeps it: the search then comes as close to it as it can.
    alone.budgets[0].most = budget.most * 1e-9;
    const CostModel alone_model(alone);
    PACELINE_ASSIGN_OR_RETURN(const SearchResult cheapest,
                              search({alone_model, Goal::within_budgets()}, starts, options));
    const double cost = cheapest.evaluation.costs[budget.index()];
    const double least = budget.per_second ? cost * 1000 / cheapest.evaluation.batch_ms : cost;
    if (least <= budget.most) continue;
    const char* of = budget.per_second ? "second" : "batch";
    return absl::ResourceExhaustedError(
        fmt::format("the budget of {} a {} is below the cheapest plan that was found, which costs {}",
                    amount(budget.kind, budget.most), of, amount(budget.kind, least)));
  }
  return absl::ResourceExhaustedError(
      "each budget can be kept, but no plan was found that keeps all of them; raise one of them");
}

std::string device_names(const Problem& problem, const PlannedReplica& replica, const PlannedStage& stage) {
  return names_of(problem,
                  {{replica.devices.begin() + static_cast<std::ptrdiff_t>(stage.first),
                    replica.devices.begin() + static_cast<std::ptrdiff_t>(stage.first + stage.width)},
                   {},
                   0},
                  ", ");
}

std::string against(double batch_ms, const std::vector<BaselineResult>& baselines) {
  const BaselineResult* best = nullptr;
  for (const BaselineResult& one : baselines) {
    if (one.evaluation.possible() && (best == nullptr || one.evaluation < best->evaluation)) best = &one;
  }
  if (best == nullptr) return "no baseline is possible";
  if (best->evaluation.over > 0) return "no baseline keeps the budgets";
  const double ratio = best->evaluation.batch_ms / batch_ms;
  if (ratio < 1 + 1e-9) return fmt::format("nothing better than {} was found", best->name);
  return fmt::format("{:.2f} times as fast as the best baseline ({}, {:.4g} ms)", ratio, best->name,
                     best->evaluation.batch_ms);
}

}  // namespace

std::string bottleneck_of(const Problem& problem, const Plan& plan, const Forecast& forecast) {
  const auto slowest = std::max_element(
      forecast.replicas.begin(), forecast.replicas.end(),
      [](const ReplicaForecast& a, const ReplicaForecast& b) { return a.time_ms < b.time_ms; });
  const PlannedReplica& replica =
      plan.replicas[static_cast<std::size_t>(slowest - forecast.replicas.begin())];
  const std::vector<PlannedStage> stages = stages_of(replica, problem.layers());
  std::string what;
  double most = -1;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PlannedStage& stage = stages[s];
    const auto first = slowest->device_ms.begin() + static_cast<std::ptrdiff_t>(stage.first);
    const double ms = *std::max_element(first, first + static_cast<std::ptrdiff_t>(stage.width)) /
                      static_cast<double>(stage.width);
    if (ms <= most) continue;
    most = ms;
    what = fmt::format("layers {} to {} on {}", stage.begin, stage.end - 1,
                       device_names(problem, replica, stage));
  }
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    if (slowest->link_ms[s] <= most) continue;
    most = slowest->link_ms[s];
    what = fmt::format("the link from {} to {}", device_names(problem, replica, stages[s]),
                       device_names(problem, replica, stages[s + 1]));
  }
  return fmt::format("{}, {:.4g} ms for each micro-batch of {}", what, most, plan.micro_batch);
}

std::string names_of(const Problem& problem, const PlannedReplica& replica, const std::string& between) {
  std::string names;
  for (const std::int32_t n : replica.devices)
    names += (names.empty() ? "" : between) + name_of_device(problem, n);
  return names;
}

std::string in_words(const std::vector<std::string>& names, std::int32_t layers, const Plan& plan) {
  std::string text;
  for (const PlannedReplica& replica : plan.replicas) {
    std::string stages, held;
    for (const PlannedStage& stage : stages_of(replica, layers)) {
      for (std::size_t turn = 0; turn < stage.width; ++turn) {
        stages += (stage.first + turn == 0 ? ""
                   : turn == 0             ? " → "
                                           : " + ") +
                  names[static_cast<std::size_t>(replica.devices[stage.first + turn])];
      }
      held += fmt::format("{}{}-{}", stage.first == 0 ? "" : " | ", stage.begin, stage.end - 1);
    }
    text += fmt::format("{} (layers {}) {} samples, ", stages, held, replica.samples);
  }
  return text + fmt::format("in micro-batches of {}", plan.micro_batch);
}

std::string in_words(const Problem& problem, const Plan& plan, double batch_ms) {
  std::vector<std::string> names;
  for (const Device& device : problem.cluster.devices) names.push_back(device.name);
  return fmt::format("{}: {:.4g} ms a batch", in_words(names, problem.layers(), plan), batch_ms);
}

std::string reason_of(const CostModel& model, const Plan& plan,
                      const std::vector<BaselineResult>& baselines) {
  const Problem& problem = model.problem();
  const Forecast forecast = model.forecast(plan);
  std::size_t devices = 0;
  for (const PlannedReplica& replica : plan.replicas) devices += replica.devices.size();
  const std::size_t present = present_devices(problem.cluster).size();
  return fmt::format("{} replica{} on {} of {} devices: {}; held up by {}; {:.3g} ms of synchronizing",
                     plan.replicas.size(), plan.replicas.size() == 1 ? "" : "s", devices, present,
                     against(forecast.batch_ms, baselines), bottleneck_of(problem, plan, forecast),
                     forecast.sync_ms);
}

// Only a plan that may choose its devices can keep a budget.
const char* over_budget(const Evaluation& evaluation) {
  return evaluation.over > 0 ? ", which costs more than the budget" : "";
}

absl::StatusOr<Planned> plan_one_pipeline(const Problem& problem) {
  const CostModel model(problem);
  const std::vector<std::int32_t> devices = present_devices(problem.cluster);
  if (devices.size() > 1 && problem.model.layers.size() < 2)
    return absl::InvalidArgumentError("a pipeline cannot be cut from one layer");
  const Evaluator evaluator(model, Goal::within_budgets());
  Planned planned;
  const auto consider = [&](PlannedReplica replica, std::int64_t u) {
    const std::optional<Cuts> cuts = best_cuts(model, replica, u, (problem.batch + u - 1) / u);
    if (!cuts) return;
    const Plan plan{{{devices, *cuts, problem.batch}}, u};
    const Evaluation evaluation = evaluator.weigh(plan);
    if (evaluation < planned.found.evaluation) planned.found = {plan, evaluation};
  };
  for (const std::int64_t u : problem.micro_batches) {
    if (devices.size() > kMostSharings) {
      consider(uncut(devices), u);
      if (auto shared = shared_stages(model, devices, u)) consider(*std::move(shared), u);
      continue;
    }
    for (std::uint32_t sharing = 0; sharing < std::uint32_t{1} << (devices.size() - 1); ++sharing) {
      consider(uncut(devices, [&](std::size_t d) { return (sharing >> (d - 1) & 1) != 0; }), u);
    }
  }
  if (!planned.found.evaluation.possible()) {
    return absl::ResourceExhaustedError(
        fmt::format("the devices' memory does not hold the model in one pipeline of {}", devices.size()));
  }
  planned.forecast = model.forecast(planned.found.plan);
  planned.reason =
      fmt::format("all devices in one pipeline{}; held up by {}", over_budget(planned.found.evaluation),
                  bottleneck_of(problem, planned.found.plan, planned.forecast));
  return planned;
}

absl::StatusOr<Planned> plan_of_baseline(const Problem& problem, const std::string& name) {
  const CostModel model(problem);
  for (Baseline& baseline : baselines(model)) {
    if (baseline.name != name) continue;
    PACELINE_RETURN_IF_ERROR(baseline.plan.status());
    Planned planned;
    planned.found.plan = *std::move(baseline.plan);
    planned.found.evaluation = Evaluator(model, Goal::within_budgets()).weigh(planned.found.plan);
    planned.forecast = model.forecast(planned.found.plan);
    planned.reason =
        fmt::format("as {} plans it{}; held up by {}", name, over_budget(planned.found.evaluation),
                    bottleneck_of(problem, planned.found.plan, planned.forecast));
    return planned;
  }
  return absl::InvalidArgumentError(fmt::format("{} is no baseline", name));
}

absl::StatusOr<Planned> make_plan(const Problem& problem, const SearchOptions& options) {
  const CostModel model(problem);
  const Evaluator evaluator(model, Goal::within_budgets());
  if (present_devices(problem.cluster).empty())
    return absl::InvalidArgumentError("the cluster has no device");
  Planned planned;
  planned.baselines = weighed_baselines(evaluator);
  const absl::StatusOr<std::vector<Plan>> found = starts_of(model, planned.baselines);
  if (!found.ok()) return with_way_out(problem, found.status());
  const std::vector<Plan>& starts = *found;
  PACELINE_ASSIGN_OR_RETURN(planned.found, search(evaluator, starts, options));
  if (planned.found.evaluation.over > 0)
    return budget_too_small(model, starts, planned.found.evaluation, options);
  planned.forecast = model.forecast(planned.found.plan);
  planned.reason = reason_of(model, planned.found.plan, planned.baselines);
  return planned;
}

}  // namespace paceline::planner

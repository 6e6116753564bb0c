#include "paceline/decisions/planner/plan_search.h"

#include <utility>

#include "paceline/decisions/planner/baselines.h"

namespace paceline::planner {

absl::StatusOr<std::optional<Plan>> run(const PlanSearch& look) {
  const CostModel model(look.problem);
  const Evaluator evaluator(model, look.goal);
  std::vector<Plan> starts = look.starts;
  if (look.options.scope == MoveScope::kGroups) {
    for (const Baseline& baseline : baselines(model)) {
      if (baseline.plan.ok()) starts.push_back(*baseline.plan);
    }
    auto any = any_plan(model);
    if (any.ok()) starts.push_back(*std::move(any));
    if (starts.empty()) return any.status();
  }
  auto found = search(evaluator, starts, look.options);
  if (!found.ok()) return std::nullopt;
  return std::move(found->plan);
}

}  // namespace paceline::planner

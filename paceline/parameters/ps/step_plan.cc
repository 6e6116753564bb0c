#include "paceline/parameters/ps/step_plan.h"

#include <utility>

#include "paceline/base/check.h"

namespace paceline::ps {

namespace {

std::vector<StepPlan::Moving> moving_of(const Layout& layout) {
  std::vector<StepPlan::Moving> moving;
  std::int64_t before = 0;
  for (const Layout::Range& range : layout.moving()) {
    moving.push_back({range.begin, range.end, before});
    before += range.end - range.begin;
  }
  return moving;
}

std::vector<StepPlan::Whole> wholes_of(const Layout& layout, std::span<const ParameterGroup> groups) {
  const std::vector<std::optional<std::size_t>> group = groups_in(layout, groups);
  std::vector<StepPlan::Whole> wholes;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    const std::int64_t end = i + 1 < group.size() ? layout.tensors()[i + 1].offset : layout.size();
    if (tensor.kind != TensorKind::kConstant) wholes.push_back({tensor, end, group[i] ? *group[i] + 1 : 0});
  }
  return wholes;
}

}  // namespace

StepPlan StepPlan::of(Layout layout, const OptimizerConfig& optimizer, std::span<const ParameterGroup> groups,
                      const std::optional<WholeModel>& whole) {
  PACELINE_CHECK(!is_tensorwise(optimizer.kind) || layout.narrow() == 0,
                 "narrow tensors that are stepped as a whole");
  StepPlan plan;
  plan.layout = std::move(layout);
  plan.optimizer = optimizer;
  plan.optimizers = {optimizer};
  for (const ParameterGroup& group : groups) plan.optimizers.push_back(optimizer_of(optimizer, group));
  plan.runs = plan.layout.runs();
  plan.passes = passes_of(plan.layout, groups);
  plan.moving = moving_of(plan.layout);
  if (!plan.moving.empty())
    plan.moving_floats = plan.moving.back().before + plan.moving.back().end - plan.moving.back().begin;
  if (is_tensorwise(optimizer.kind)) plan.wholes = wholes_of(plan.layout, groups);
  if (optimizer.clip > 0)
    plan.blocks = whole ? squares_blocks(whole->layout, whole->offset) : squares_blocks(plan.layout, 0);
  plan.narrow_blocks_end = whole ? whole->layout.narrow() - whole->offset : plan.layout.narrow();
  return plan;
}

}  // namespace paceline::ps

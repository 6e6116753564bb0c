#include "paceline/decisions/planner/second_best.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/decisions/planner/enumeration.h"

namespace paceline::planner {

namespace {

constexpr double kMostTried = 50'000;
constexpr double kAlike = 1e-6;  // plans that differ by less only have equal devices in other places

class Seconds {
 public:
  Seconds(const Evaluator& evaluator, const Planned& planned) : evaluator_(evaluator), planned_(planned) {}

  void consider(Plan plan) {
    if (same_stages_by_device(plan, planned_.found.plan)) return;
    const Evaluation evaluation = evaluator_.assign(plan);
    if (!evaluation.possible() || evaluation.over > 0) return;
    if (evaluation.batch_ms <= planned_.forecast.batch_ms * (1 + kAlike)) return;
    if (best_ && !(evaluation < best_->evaluation)) return;
    best_ = SecondBest{std::move(plan), evaluation, ""};
  }

  // The chosen plan with one stage of one replica that begins a layer earlier or later.
  void move_cuts() {
    for (std::size_t g = 0; g < planned_.found.plan.replicas.size(); ++g) {
      const PlannedReplica& replica = planned_.found.plan.replicas[g];
      for (const PlannedStage& stage : stages_of(replica, evaluator_.problem().layers())) {
        if (stage.first == 0) continue;
        for (const std::int32_t by : {-1, 1}) move_cut(g, stage, by);
      }
    }
  }

  std::optional<SecondBest> take() && { return std::move(best_); }

 private:
  void move_cut(std::size_t g, const PlannedStage& stage, std::int32_t by) {
    for (const std::int64_t u : evaluator_.problem().micro_batches) {
      Plan plan = planned_.found.plan;
      plan.micro_batch = u;
      PlannedReplica& replica = plan.replicas[g];
      for (std::size_t d = stage.first; d < stage.first + stage.width; ++d) replica.cuts[d - 1] += by;
      const std::vector<PlannedStage> stages = stages_of(replica, evaluator_.problem().layers());
      const bool empty = std::any_of(stages.begin(), stages.end(),
                                     [](const PlannedStage& one) { return one.begin >= one.end; });
      const bool merged =
          stages.size() != stages_of(planned_.found.plan.replicas[g], evaluator_.problem().layers()).size();
      if (!empty && !merged) consider(std::move(plan));
    }
  }

  static bool same_stages_by_device(Plan a, Plan b) {
    const auto earlier = [](const PlannedReplica& x, const PlannedReplica& y) {
      return x.devices < y.devices;
    };
    std::sort(a.replicas.begin(), a.replicas.end(), earlier);
    std::sort(b.replicas.begin(), b.replicas.end(), earlier);
    b.micro_batch = a.micro_batch;
    return same_stages(a, b);
  }

  const Evaluator& evaluator_;
  const Planned& planned_;
  std::optional<SecondBest> best_;
};

}  // namespace

std::optional<SecondBest> second_best(const Problem& problem, const Planned& planned) {
  const CostModel model(problem);
  const Evaluator evaluator(model, Goal::within_budgets());
  Seconds seconds(evaluator, planned);
  for (const BaselineResult& one : planned.baselines) {
    if (one.plan.ok()) seconds.consider(*one.plan);
  }
  if (count_of_plans(problem) <= kMostTried)
    for_each_plan(problem, [&](Plan& plan) { seconds.consider(plan); });
  seconds.move_cuts();
  std::optional<SecondBest> best = std::move(seconds).take();
  if (!best) return best;
  const Forecast forecast = model.forecast(best->plan);
  best->reason = fmt::format("{:.3g} times as long, held up by {}; {:.3g} ms of synchronizing",
                             forecast.batch_ms / planned.forecast.batch_ms,
                             bottleneck_of(problem, best->plan, forecast), forecast.sync_ms);
  return best;
}

}  // namespace paceline::planner

#include "paceline/records/pages/metrics.h"

#include "paceline/decisions/planner/planner.h"
#include "paceline/records/pages/json_values.h"

namespace paceline::report {

namespace {

Json late_plan_json(const Summary& summary) {
  if (!summary.plan) return nullptr;
  const PlanSummary& plan = *summary.plan;
  const bool measured = plan.batches.count > 0;
  return {{"words", planner::in_words(summary.run.devices, summary.run.layers, plan.plan)},
          {"re_plans", plan.re_plans},
          {"batch_ms", measured ? Json(plan.late_measured_ms) : Json(nullptr)},
          {"predicted_ms", measured ? Json(plan.late_predicted_ms) : Json(nullptr)}};
}

}  // namespace

std::string metrics_line(const Summary& summary) {
  return one_line({{"kind", "snapshot"},
                   {"world", name_of(summary.run.world)},
                   {"time_s", json_seconds(summary.at)},
                   {"samples", summary.samples},
                   {"total_samples", summary.run.total_samples},
                   {"samples_per_s", json_number(summary.samples_per_s)},
                   {"iterations", summary.iterations},
                   {"commits", summary.commits},
                   {"wait_share", json_number(summary.wait_share)},
                   {"gap", summary.gap},
                   {"gap_max", summary.gap_max},
                   {"staleness_mean", json_number(summary.staleness_mean)},
                   {"staleness_max", summary.staleness_max},
                   {"commits_per_epoch", json_number(summary.commits_per_epoch())},
                   {"group_size_mean", json_number(summary.groups.size_mean)},
                   {"group_size_of_late", json_number(summary.groups.size_of_late)},
                   {"training_loss", json_number(summary.training_loss)},
                   {"training_metrics", json_metrics(summary.training_metrics)},
                   {"replicas_live", summary.replicas_live()},
                   {"plan", late_plan_json(summary)},
                   {"finished", summary.finished}});
}

std::string metrics_line(const control::Evaluated& evaluated) {
  return one_line({{"kind", "evaluation"},
                   {"time_s", json_seconds(evaluated.at)},
                   {"version", evaluated.version.value()},
                   {"samples", evaluated.samples},
                   {"loss", json_number(evaluated.loss)},
                   {"accuracy", json_number(evaluated.accuracy)},
                   {"metrics", json_metrics(evaluated.metrics)}});
}

}  // namespace paceline::report

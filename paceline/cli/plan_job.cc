#include "paceline/cli/plan_job.h"

#include <optional>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/planner/planner.h"
#include "paceline/store/journal_reader.h"
#include "paceline/train/dataset.h"
#include "paceline/train/profile.h"
#include "paceline/train/threads.h"

namespace paceline::cli {

namespace {

absl::StatusOr<planner::ModelProfile> measured(const config::JobConfig& job) {
  if (!job.parallel.model.layers.empty()) return job.parallel.model;
  PACELINE_ASSIGN_OR_RETURN(const train::DataSets data, train::load_data(job.data, job.model.context));
  train::use_threads(job.replicas.front().threads);
  return train::profile_model(job.model, data.train->sample_shape(), data.train->classes());
}

bool is_of(const planner::Plan& plan, const config::JobConfig& job) {
  for (const planner::PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t device : replica.devices) {
      if (static_cast<std::size_t>(device) >= job.replicas.size()) return false;
    }
  }
  return true;
}

absl::StatusOr<planner::Planned> make_plan(const config::JobConfig& job, planner::Problem problem) {
  // Budgets are of the long run: the first batch of a plan that changes knows none.
  if (job.parallel.mode == config::Parallel::kJoint) problem.budgets.clear();
  switch (job.parallel.mode) {
    case config::Parallel::kJoint:
    case config::Parallel::kFrozen:
      return planner::make_plan(problem, {.seed = job.seed});
    case config::Parallel::kPipeline:
      return planner::plan_one_pipeline(problem);
    default:
      return planner::plan_of_baseline(problem, config::to_string(job.parallel.mode));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> last_plan(const config::JobConfig& job, const store::RunPaths& run) {
  if (job.parallel.mode != config::Parallel::kJoint || job.parallel.model.layers.empty())
    return std::vector<std::string>{};
  PACELINE_ASSIGN_OR_RETURN(store::JournalReader journal, store::JournalReader::open(run.journal()));
  std::optional<planner::Plan> last;
  PACELINE_RETURN_IF_ERROR(journal.plans([&](const control::PlanAdopted& adopted) { last = adopted.plan; }));
  if (!last || !is_of(*last, job)) return std::vector<std::string>{};
  std::vector<std::string> settings = config::plan_settings(job, job.parallel.model, *last);
  if (!job.budget) return settings;
  double queue = job.budget->queue;
  PACELINE_RETURN_IF_ERROR(journal.batches([&](const control::BatchDone& batch) {
    if (batch.spending) queue = batch.spending->queue;
  }));
  settings.push_back(fmt::format("budget.queue={}", queue));
  return settings;
}

absl::StatusOr<PlannedJob> plan_job(const std::string& job_toml, config::RunTime time) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  if (!job.parallel.to_be_planned) return PlannedJob{job_toml, ""};
  PACELINE_ASSIGN_OR_RETURN(const planner::ModelProfile model, measured(job));
  PACELINE_RETURN_IF_ERROR(
      config::check_units(job.parallel, job.model.name, static_cast<std::int64_t>(model.layers.size())));
  const planner::Problem problem = config::planning_problem(job, model, time);
  const auto planned = make_plan(job, problem);
  if (!planned.ok()) {
    return absl::Status(planned.status().code(), fmt::format("parallel: no plan is possible: {}",
                                                             std::string(planned.status().message())));
  }
  const planner::Plan& plan = planned->found.plan;
  PlannedJob made;
  PACELINE_ASSIGN_OR_RETURN(
      made.job_toml, config::resolve_job(job_toml, "job.toml", config::plan_settings(job, model, plan)));
  made.line = fmt::format("plan: {} ({})", planner::in_words(problem, plan, planned->forecast.batch_ms),
                          planned->reason);
  return made;
}

}  // namespace paceline::cli

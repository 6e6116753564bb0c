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

}  // namespace

absl::StatusOr<std::vector<std::string>> last_plan(const config::JobConfig& job, const store::RunPaths& run) {
  if (job.parallel.mode != config::Parallel::kJoint || job.parallel.model.layers.empty())
    return std::vector<std::string>{};
  PACELINE_ASSIGN_OR_RETURN(store::JournalReader journal, store::JournalReader::open(run.journal()));
  std::optional<planner::Plan> last;
  PACELINE_RETURN_IF_ERROR(journal.plans([&](const control::PlanAdopted& adopted) { last = adopted.plan; }));
  if (!last || !is_of(*last, job)) return std::vector<std::string>{};
  return config::plan_settings(job, job.parallel.model, *last);
}

absl::StatusOr<PlannedJob> plan_job(const std::string& job_toml, config::RunTime time) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  if (!job.parallel.to_be_planned) return PlannedJob{job_toml, ""};
  PACELINE_ASSIGN_OR_RETURN(const planner::ModelProfile model, measured(job));
  PACELINE_RETURN_IF_ERROR(
      config::check_units(job.parallel, job.model.name, static_cast<std::int64_t>(model.layers.size())));
  const planner::Problem problem = config::planning_problem(job, model, time);
  const bool one_pipeline = job.parallel.mode == config::Parallel::kPipeline;
  const auto planned =
      one_pipeline ? planner::plan_one_pipeline(problem) : planner::make_plan(problem, {.seed = job.seed});
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

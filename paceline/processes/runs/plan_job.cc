#include "paceline/processes/runs/plan_job.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/formats/config/lowered_memory.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/processes/runs/lowered_memory.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/journal_reader.h"

namespace paceline::runs {

namespace {

absl::StatusOr<planner::ModelProfile> measured(const config::JobConfig& job, const MeasureModel& measure) {
  if (!job.parallel.model.layers.empty()) return job.parallel.model;
  if (measure == nullptr) return absl::FailedPreconditionError("parallel: nobody has measured the model");
  return measure(job);
}

// Translates a plan of an attempt that may have had other hosts: to the devices of the present job, by their
// names. Nothing if it has other devices.
std::optional<planner::Plan> of_devices(planner::Plan plan, const config::JobConfig& then,
                                        const config::JobConfig& now) {
  const auto named = [](const config::JobConfig& job, const std::string& name) {
    return std::find_if(job.devices.begin(), job.devices.end(),
                        [&](const config::DeviceConfig& device) { return device.name == name; });
  };
  for (planner::PlannedReplica& replica : plan.replicas) {
    for (std::int32_t& device : replica.devices) {
      if (static_cast<std::size_t>(device) >= then.devices.size()) return std::nullopt;
      const auto place = named(now, then.devices[static_cast<std::size_t>(device)].name);
      if (place == now.devices.end()) return std::nullopt;
      device = static_cast<std::int32_t>(place - now.devices.begin());
    }
  }
  return plan;
}

// The last plan that was adopted, for the devices of `job`.
absl::StatusOr<std::optional<planner::Plan>> last_adopted(store::JournalReader& journal,
                                                          const config::JobConfig& job) {
  PACELINE_ASSIGN_OR_RETURN(auto last, journal.last_plan());
  if (!last) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal.run());
  const auto text = about.find(job_key(last->attempt));
  if (text == about.end())
    return absl::DataLossError(fmt::format("the journal has no job of attempt {}", last->attempt));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig then,
                            config::parse_job(config::with_current_keys(text->second), "job.toml"));
  return of_devices(std::move(last->adopted.plan), then, job);
}

bool any_lowered(const std::vector<double>& memory) {
  return std::any_of(memory.begin(), memory.end(), [](double mb) { return mb > 0; });
}

// Nothing if the job's plan never changes, or if there is no journal: after the user moved a damaged one away, the plan
// is made again.
absl::StatusOr<std::optional<store::JournalReader>> journal_of(const config::JobConfig& job,
                                                               const store::RunPaths& run) {
  if (job.parallel.mode != config::Parallel::kJoint || job.parallel.model.layers.empty()) return std::nullopt;
  auto journal = store::JournalReader::open(run.journal());
  if (absl::IsNotFound(journal.status())) return std::nullopt;
  PACELINE_RETURN_IF_ERROR(journal.status());
  return std::optional<store::JournalReader>(*std::move(journal));
}

// Whether the devices have room for the plan if they have no more memory than this.
bool has_room(config::JobConfig job, const std::vector<double>& memory, const planner::Plan& plan) {
  config::lower_memory(job.devices, memory);
  planner::Problem problem = config::planning_problem(job, job.parallel.model, config::RunTime::kWall);
  problem.batch = 0;
  for (const planner::PlannedReplica& replica : plan.replicas) problem.batch += replica.samples;
  return planner::CostModel(problem).check(plan).ok();
}

absl::StatusOr<planner::Planned> make_plan(const config::JobConfig& job, planner::Problem problem) {
  // Budgets are for the long run: the first batch of a plan that changes knows none.
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

absl::StatusOr<std::vector<std::string>> lowered_memory_settings(const config::JobConfig& job,
                                                                 const store::RunPaths& run) {
  PACELINE_ASSIGN_OR_RETURN(auto journal, journal_of(job, run));
  if (!journal) return std::vector<std::string>{};
  PACELINE_ASSIGN_OR_RETURN(const std::vector<double> memory, lowered_memory(job, *journal));
  if (!any_lowered(memory)) return std::vector<std::string>{};
  return std::vector<std::string>{config::lowered_memory_setting(memory)};
}

absl::StatusOr<std::vector<std::string>> last_plan(const config::JobConfig& job, const store::RunPaths& run) {
  PACELINE_ASSIGN_OR_RETURN(auto journal, journal_of(job, run));
  if (!journal) return std::vector<std::string>{};
  std::vector<std::string> settings;
  PACELINE_ASSIGN_OR_RETURN(const std::vector<double> memory, lowered_memory(job, *journal));
  if (any_lowered(memory)) settings.push_back(config::lowered_memory_setting(memory));
  PACELINE_ASSIGN_OR_RETURN(const auto last, last_adopted(*journal, job));
  if (!last) return settings;
  if (any_lowered(memory) && !has_room(job, memory, *last)) {
    settings.emplace_back("pipeline=[]");
  } else {
    for (std::string& one : config::plan_settings(job, job.parallel.model, *last))
      settings.push_back(std::move(one));
  }
  if (!job.budget) return settings;
  PACELINE_ASSIGN_OR_RETURN(const auto queue, journal->last_queue());
  settings.push_back(fmt::format("budget.queue={}", queue.value_or(job.budget->queue)));
  return settings;
}

absl::StatusOr<PlannedJob> plan_job(const std::string& job_toml, config::RunTime time,
                                    const MeasureModel& measure) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  if (!job.parallel.to_be_planned) return PlannedJob{job_toml, ""};
  PACELINE_ASSIGN_OR_RETURN(const planner::ModelProfile model, measured(job, measure));
  PACELINE_RETURN_IF_ERROR(
      config::check_units(job.parallel, job.model.name, static_cast<std::int64_t>(model.layers.size())));
  const planner::Problem problem = config::planning_problem(job, model, time);
  const auto planned = make_plan(job, problem);
  const std::string memory = config::memory_words(job);
  if (!planned.ok()) {
    return absl::Status(planned.status().code(), fmt::format("parallel: no plan is possible: {}{}",
                                                             std::string(planned.status().message()),
                                                             memory.empty() ? "" : "; memory: " + memory));
  }
  const planner::Plan& plan = planned->found.plan;
  PlannedJob made;
  PACELINE_ASSIGN_OR_RETURN(
      made.job_toml, config::resolve_job(job_toml, "job.toml", config::plan_settings(job, model, plan)));
  made.line = fmt::format("plan: {} ({})", planner::in_words(problem, plan, planned->forecast.batch_ms),
                          planned->reason);
  if (!memory.empty()) made.line += "; memory: " + memory;
  return made;
}

}  // namespace paceline::runs

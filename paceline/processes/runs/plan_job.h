// The plan of a job whose planner makes it: `parallel = "joint"` or "pipeline".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/planning.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

struct PlannedJob {
  std::string job_toml;  // with the plan in it, and the measured model
  std::string line;      // the plan and its reason, for a person; empty if no plan was needed
};

// Measures the cost of the layers of the job's model. Errors: those of the data and the model.
using MeasureModel = std::function<absl::StatusOr<planner::ModelProfile>(const config::JobConfig&)>;

// Measures the job's model, unless the job describes it, and plans. A job that needs no plan, or has one, is
// returned unchanged. Errors: those of `measure`, without which a job must describe its model;
// ResourceExhausted if the devices cannot hold the model.
absl::StatusOr<PlannedJob> plan_job(const std::string& job_toml, config::RunTime time,
                                    const MeasureModel& measure = nullptr);

// The settings with which a run continues its last plan, with the memory that its devices turned out to have: keys of
// resolve_job. If that has no room for the last plan, they say that the job is to be planned. None if the job's plan
// never changes, or if it never trained. Errors: those of the journal.
absl::StatusOr<std::vector<std::string>> last_plan(const config::JobConfig& job, const store::RunPaths& run);

// The settings of last_plan() that are about memory alone, for a job that gets a new plan.
absl::StatusOr<std::vector<std::string>> lowered_memory_settings(const config::JobConfig& job,
                                                                 const store::RunPaths& run);

}  // namespace paceline::runs

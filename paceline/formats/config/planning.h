// The planner's view of a job: its devices with their paces and memories, their real links, and the measured
// model. Pure; for job files with a plan by the planner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/control/replanner.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/problem.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::config {

// The source of a run's times.
enum class RunTime { kWall, kVirtual };

// B is the devices' batches together; u is the job's micro_batch, or any power of two. Times are those that
// devices will take: a paced one's its pace, spread over the units by `work`; an unpaced one's what `model`
// was measured to take (virtual time: compute_ms). A host's memory carries what processes hand to each other,
// and their [link]s what goes between hosts; in virtual time hand-offs take no time, and the servers are
// reached over [link].
planner::Problem planning_problem(const JobConfig& job, const planner::ModelProfile& model, RunTime time);

// The settings that give the job this plan: keys in the form of resolve_job.
std::vector<std::string> plan_settings(const JobConfig& job, const planner::ModelProfile& model,
                                       const planner::Plan& plan);

// The one of them that describes the measured model: "layer=[…]".
std::string layer_setting(const planner::ModelProfile& model);

// For a job with a plan by the planner; nullopt if the plan is the user's, or if the model was not measured.
std::optional<control::ReplannerOptions> replanner_options(const JobConfig& job, RunTime time);

}  // namespace paceline::config

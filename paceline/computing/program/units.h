// The units of a program's model, for those who plan and check a job's stages. Pure.
#pragma once

#include <absl/status/status.h>

#include "paceline/computing/program/messages.h"
#include "paceline/decisions/planner/profile.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::program {

// Costs follow the units' floating-point operations, at a nominal speed. Only their ratios say something.
planner::ModelProfile profile_of(const Model& model);

// Errors: InvalidArgument if the model cannot be cut, or not as the job says, or if nobody knows how many samples there
// are: a stage has no way to say that the data end.
absl::Status check_stages(const config::JobConfig& job, const Model& model);

}  // namespace paceline::program

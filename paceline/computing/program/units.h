// The units of a program's model, for those who plan and check a job's stages. Pure.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/program/messages.h"
#include "paceline/decisions/planner/profile.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::program {

// Costs follow the units' floating-point operations, at a nominal speed. Only their ratios say something.
planner::ModelProfile profile_of(const Model& model);

// Nothing if the model has no units.
std::optional<engine::Engine::Cuts> cuts_of(const Model& model);

// For a worker of a job with stages, called `name`. Errors: FailedPrecondition if its model cannot be cut.
absl::Status check_cut(const std::string& name, const Model& model);

// Errors: InvalidArgument if the model cannot be cut, or not as the job says, or if nobody knows how many samples there
// are: a stage has no way to say that the data end.
absl::Status check_stages(const config::JobConfig& job, const Model& model);

}  // namespace paceline::program

// The facts of a job that its coordinator needs.
#pragma once

#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::config {

coordinator::JobSettings coordinator_settings(const JobConfig& job);

}  // namespace paceline::config

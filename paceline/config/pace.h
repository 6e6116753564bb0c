// How long an iteration of a paced replica takes: a slower device, imitated. Pure.
#pragma once

#include <cstdint>

#include "paceline/base/time.h"
#include "paceline/config/job_config.h"

namespace paceline::config {

// From release to ready, for an iteration that started at `start` and whose real gradient took `compute`.
// Never less than `compute`.
Duration paced(const JobConfig& job, std::size_t replica, Time start, Duration compute);

}  // namespace paceline::config

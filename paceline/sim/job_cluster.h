// The cluster that a job describes, for virtual time.
#pragma once

#include <cstdint>

#include "paceline/config/job_config.h"
#include "paceline/sim/cluster_model.h"

namespace paceline::sim {

// `model_bytes`: of all weights together.
ClusterModel cluster_of(const config::JobConfig& job, std::int64_t model_bytes);

}  // namespace paceline::sim

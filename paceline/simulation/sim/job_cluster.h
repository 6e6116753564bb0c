// The cluster that a job describes, for virtual time.
#pragma once

#include <cstdint>

#include "paceline/formats/config/job_config.h"
#include "paceline/simulation/sim/cluster_model.h"

namespace paceline::sim {

// `model_bytes`: of all weights together; `units`: of the model. A pipeline pushes and pulls over the link of
// its first device.
ClusterModel cluster_of(const config::JobConfig& job, std::int64_t model_bytes, std::int64_t units);

}  // namespace paceline::sim

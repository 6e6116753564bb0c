#include "paceline/sim/job_cluster.h"

namespace paceline::sim {

ClusterModel cluster_of(const config::JobConfig& job, std::int64_t model_bytes) {
  ClusterModel cluster;
  cluster.seed = job.seed;
  cluster.bytes = job.free_communication ? 0 : model_bytes;
  cluster.servers = {.count = job.servers, .gbps = job.server_gbps, .colocated = job.servers_colocated};
  cluster.slowdowns = job.slowdowns;
  cluster.uneven_data = job.parallel.mode == config::Parallel::kUnevenData;
  for (const config::ReplicaConfig& replica : job.replicas) {
    cluster.places.push_back(
        {.name = replica.name,
         .compute_ms = replica.pace_ms.value_or(job.virtual_compute_ms * replica.pace.value_or(1.0)),
         .unevenness = replica.unevenness,
         .batch = replica.batch,
         .link = replica.link});
  }
  return cluster;
}

}  // namespace paceline::sim

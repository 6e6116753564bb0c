#include "paceline/simulation/sim/job_cluster.h"

#include "paceline/formats/config/server_parts.h"

namespace paceline::sim {

namespace {

std::vector<StageModel> stages_of(const config::JobConfig& job, const planner::PlannedReplica& planned,
                                  std::int64_t units) {
  std::vector<StageModel> stages;
  for (std::size_t s = 0; s < planned.devices.size(); ++s) {
    const std::int64_t number = planned.devices[s];
    const config::DeviceConfig& device = job.devices[static_cast<std::size_t>(number)];
    const std::int64_t begin = planned.begin(s), end = planned.end(s, static_cast<std::int32_t>(units));
    const double share = config::share_of_work(job.parallel.work, begin, end, units);
    stages.push_back(
        {.sample_ms = config::virtual_ms(job, device) * share / static_cast<double>(device.batch),
         .device = number,
         .begin = begin,
         .end = end,
         .shares = s > 0 && planner::shares_with_the_one_before(planned, s),
         .unevenness = device.unevenness,
         .slowdowns = job.slowdowns});
  }
  return stages;
}

}  // namespace

ClusterModel cluster_of(const config::JobConfig& job, std::int64_t model_bytes, std::int64_t units) {
  ClusterModel cluster;
  cluster.seed = job.seed;
  cluster.bytes = job.free_communication ? 0 : model_bytes;
  cluster.servers = {.count = config::modelled_servers(job),
                     .gbps = job.server_gbps,
                     .colocated = job.placement == config::Placement::kBeside,
                     .update = job.update};
  if (job.hosts > 1) cluster.in_groups = job.reduce_in_group;
  cluster.load_ms = job.load_ms;
  const bool each_alone = !job.parallel.of_stages();
  cluster.uneven_data = job.parallel.uneven_data();
  if (each_alone) cluster.slowdowns = job.slowdowns;
  for (const planner::PlannedReplica& planned : job.parallel.plan.replicas) {
    const config::DeviceConfig& device = job.devices[static_cast<std::size_t>(planned.devices.front())];
    PlaceModel& place = cluster.places.emplace_back();
    place.name = config::replica_name(job, planned);
    place.batch = planned.samples;
    place.link = device.link;
    if (each_alone) {
      place.compute_ms = config::virtual_ms(job, device);
      place.unevenness = device.unevenness;
    } else {
      place.stages = stages_of(job, planned, units);
      place.micro_batch = job.parallel.plan.micro_batch;
    }
  }
  return cluster;
}

}  // namespace paceline::sim

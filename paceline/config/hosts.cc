#include "paceline/config/hosts.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/config/job_config.h"

namespace paceline::config {

namespace {

constexpr std::int64_t kMostHosts = 64;

void spread(JobConfig& job) {
  const auto devices = static_cast<std::int64_t>(job.replicas.size());
  for (std::int64_t i = 0; i < devices; ++i) {
    ReplicaConfig& device = job.replicas[static_cast<std::size_t>(i)];
    if (!device.host) device.host = static_cast<int>(i * job.hosts / devices);
  }
}

void check_places(Section& cluster, const JobConfig& job) {
  for (std::int64_t host = 0; host < job.hosts; ++host) {
    const bool used = std::any_of(job.replicas.begin(), job.replicas.end(),
                                  [&](const ReplicaConfig& device) { return *device.host == host; });
    if (!used) return cluster.complain("hosts", fmt::format("host {} has no replica", host));
  }
  for (const ReplicaConfig& device : job.replicas) {
    if (*device.host >= job.hosts) {
      return cluster.complain("hosts", fmt::format("{} is on host {}, and there are hosts 0 to {}",
                                                   device.name, *device.host, job.hosts - 1));
    }
  }
}

void check_more_than_one(Section& cluster, const JobConfig& job) {
  if (cluster.has("servers") && job.servers != job.hosts) {
    cluster.complain("servers",
                     fmt::format("every host has one server: leave it out, or write {}", job.hosts));
  }
  if (job.reduce_in_group)
    cluster.complain("reduction", "members sum among themselves on one host only; leave it out");
  const auto& replicas = job.parallel.plan.replicas;
  const bool together = std::all_of(replicas.begin(), replicas.end(),
                                    [&](const auto& replica) { return on_one_host(job, replica); });
  if (!together || job.parallel.by_planner())
    cluster.complain("hosts", "the stages of a pipeline have to be on one host");
}

}  // namespace

void read_hosts(Section& cluster, JobConfig& job) {
  job.hosts = cluster.integer("hosts", 1, 1, kMostHosts);
  job.seal = cluster.boolean("seal", true);
  spread(job);
  check_places(cluster, job);
  if (job.hosts == 1) return;
  check_more_than_one(cluster, job);
  job.servers = job.hosts;
}

bool on_one_host(const JobConfig& job, const planner::PlannedReplica& replica) {
  const auto host = [&](std::int32_t device) { return job.replicas[static_cast<std::size_t>(device)].host; };
  return std::all_of(replica.devices.begin(), replica.devices.end(),
                     [&](std::int32_t device) { return host(device) == host(replica.devices.front()); });
}

}  // namespace paceline::config

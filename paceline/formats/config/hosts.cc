#include "paceline/formats/config/hosts.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/server_parts.h"

namespace paceline::config {

namespace {

constexpr std::int64_t kMostCopies = 2;

bool keeps_all(const JobConfig& job) { return spread_of(job) == ServerSpread::kCentral; }

void spread(JobConfig& job) {
  const auto devices = static_cast<std::int64_t>(job.devices.size());
  for (std::int64_t i = 0; i < devices; ++i) {
    DeviceConfig& device = job.devices[static_cast<std::size_t>(i)];
    if (!device.host) device.host = static_cast<int>(i * job.hosts / devices);
  }
}

void check_places(Section& cluster, const JobConfig& job) {
  // The host that keeps all weights has something to do without a device.
  for (std::int64_t host = keeps_all(job) ? 1 : 0; host < job.hosts; ++host) {
    const bool used = std::any_of(job.devices.begin(), job.devices.end(),
                                  [&](const DeviceConfig& device) { return *device.host == host; });
    if (!used)
      return cluster.complain("hosts",
                              fmt::format("host {0} has no device; add a [[device]] with host = {0}, or "
                                          "write fewer hosts",
                                          host));
  }
  for (const DeviceConfig& device : job.devices) {
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
}

// With one host, `placement` is how virtual time models the servers. With several, the first one keeps all
// weights, or each keeps a part. Summing in groups saves the first host's link, so the sum is made on the way
// there unless the job says otherwise.
void read_placement(Section& cluster, JobConfig& job) {
  const std::vector<std::string> places{"central", "beside"};
  const bool several = job.hosts > 1;
  job.placement =
      cluster.choice("placement", several ? 1 : 0, places) == 0 ? Placement::kCentral : Placement::kBeside;
  const bool summed_on_the_way = keeps_all(job) && job.copies == 1;
  job.reduce_in_group = cluster.choice("reduction", summed_on_the_way ? 1 : 0, {"servers", "group"}) == 1;
  if (job.reduce_in_group && several && !summed_on_the_way)
    cluster.complain("reduction",
                     "over several hosts members sum among themselves only with placement = \"central\" and "
                     "copies = 1; leave it out");
}

// Device n is now the one at places[n]; -1: no more.
std::vector<std::int32_t> keep_devices(JobConfig& job, const std::vector<int>& new_rank) {
  std::vector<std::int32_t> places;
  std::vector<DeviceConfig> kept;
  for (DeviceConfig& device : job.devices) {
    const int host = new_rank[static_cast<std::size_t>(*device.host)];
    places.push_back(host < 0 ? -1 : static_cast<std::int32_t>(kept.size()));
    if (host < 0) job.left_out.push_back(device.name);
    if (host < 0) continue;
    device.host = host;
    kept.push_back(std::move(device));
  }
  job.devices = std::move(kept);
  return places;
}

// A pipeline that loses a device is none; those that it has left are in no other.
void leave_out(JobConfig& job, const std::vector<int>& new_rank) {
  const std::vector<std::int32_t> places = keep_devices(job, new_rank);
  const auto gone = [&](std::int64_t device) { return places[static_cast<std::size_t>(device)] < 0; };
  auto& replicas = job.parallel.plan.replicas;
  std::erase_if(replicas, [&](const auto& replica) {
    return std::any_of(replica.devices.begin(), replica.devices.end(), gone);
  });
  for (planner::PlannedReplica& replica : replicas) {
    for (std::int32_t& device : replica.devices) device = places[static_cast<std::size_t>(device)];
  }
  std::erase_if(job.slowdowns, [&](const Slowdown& one) { return gone(one.device); });
  for (Slowdown& one : job.slowdowns) one.device = places[static_cast<std::size_t>(one.device)];
  std::erase_if(job.prices, [&](const control::PriceChange& one) { return gone(one.device); });
  for (control::PriceChange& one : job.prices) one.device = places[static_cast<std::size_t>(one.device)];
}

void read_without(Section& cluster, JobConfig& job) {
  std::vector<int> new_rank(static_cast<std::size_t>(job.hosts));
  for (const std::int64_t host : cluster.integers("without", 0, job.hosts - 1))
    new_rank[static_cast<std::size_t>(host)] = -1;
  for (std::size_t host = 0; host < new_rank.size(); ++host) {
    if (new_rank[host] < 0) job.without.emplace_back(static_cast<std::int32_t>(host));
    if (new_rank[host] < 0) continue;
    new_rank[host] = static_cast<int>(job.ranks.size());
    job.ranks.emplace_back(static_cast<std::int32_t>(host));
  }
  if (!job.without.empty()) leave_out(job, new_rank);
  if (job.parallel.plan.replicas.empty())
    cluster.complain("without",
                     fmt::format("every pipeline has a stage on host {}", fmt::join(job.without, " or ")));
  job.hosts = static_cast<std::int64_t>(job.ranks.size());
}

}  // namespace

void read_hosts(Section& cluster, JobConfig& job) {
  job.hosts = cluster.integer("hosts", 1, 1, kMostHosts);
  job.copies = cluster.integer("copies", 1, 1, kMostCopies);
  if (job.copies > job.hosts)
    cluster.complain("copies", "copies of the weights are on different hosts: write hosts = 2 or more");
  job.shared_folder = cluster.boolean("shared_folder", false);
  job.seal = cluster.boolean("seal", true);
  const std::vector<std::string> in_the_clear{"auto", "tcp", "ucx"};
  job.fabric = in_the_clear[cluster.choice("fabric", 0, in_the_clear)];
  if (job.seal && cluster.has("fabric"))
    cluster.complain("fabric", "is for traffic in the clear; add seal = false");
  if (job.seal) job.fabric = "sealed";
  read_placement(cluster, job);
  spread(job);
  check_places(cluster, job);
  job.host_patience_s = cluster.number("host_patience_s", job.host_patience_s, 0.1, 1e6);
  if (job.hosts == 1) return;
  check_more_than_one(cluster, job);
  // The complaint may be about a device or a host that does not exist.
  if (!cluster.good()) return;
  read_without(cluster, job);
  job.servers = job.hosts;
  job.copies = std::min(job.copies, job.hosts);
}

}  // namespace paceline::config

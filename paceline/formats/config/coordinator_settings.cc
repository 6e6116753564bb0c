#include "paceline/formats/config/coordinator_settings.h"

#include <algorithm>
#include <cmath>

#include "paceline/formats/config/card_memory.h"
#include "paceline/formats/config/planning.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/parameters/ps/parameter_groups.h"

namespace paceline::config {

namespace {

// Whether a server sees all members of each commit in its host's memory, and makes what the coordinator orders without
// asking others. A planner and the rejection of outliers decide by what a worker says with its gradient.
bool foresees(const JobConfig& job) {
  const auto& replicas = job.parallel.plan.replicas;
  return job.hosts == 1 && job.copies <= 1 && !job.reduce_in_group && job.reject_outliers == 0 &&
         !replanner_options(job, RunTime::kWall) &&
         std::all_of(replicas.begin(), replicas.end(),
                     [](const auto& one) { return one.devices.size() == 1; });
}

}  // namespace

coordinator::JobSettings coordinator_settings(const JobConfig& job) {
  coordinator::JobSettings settings;
  for (const DeviceConfig& device : job.devices)
    settings.devices.push_back({device.name, HostPlace(device.host.value_or(0))});
  settings.left_out = job.left_out;
  settings.hosts = job.hosts;
  settings.ranks = job.ranks;
  settings.without = job.without;
  settings.host_patience_s = job.host_patience_s;
  settings.servers = job.servers;
  settings.spread = spread_of(job);
  settings.copies = job.copies;
  settings.whole_tensors = ps::is_tensorwise(job.optimizer.kind);
  settings.clips = job.optimizer.clip > 0;
  settings.seal = job.seal;
  settings.card_possible = !why_not_on_card(job);
  settings.card_required = job.memory == ShardMemory::kGpu;
  // On several hosts, servers add what passes (exchange/commit_exchange.h).
  settings.sums_in_memory = job.reduce_in_group && job.hosts == 1;
  settings.sends_early = sends_early(job);
  settings.foresees = foresees(job);
  settings.has_program = job.program.has_value();
  settings.reject_outliers = job.reject_outliers;
  settings.evaluates = job.evaluates;
  if (job.stop_at_target) settings.stop_at = job.target;
  settings.card_reserve = std::llround(kCardReserveMb * 1e6);
  settings.plan = job.parallel.plan;
  settings.replanner = replanner_options(job, RunTime::kWall);
  settings.policy = job.policy;
  settings.controller = [job](std::int64_t dataset_size) { return controller_config(job, dataset_size); };
  settings.check_model = [groups = job.groups](const Layout& layout) {
    return ps::check_groups(layout, groups);
  };
  return settings;
}

}  // namespace paceline::config

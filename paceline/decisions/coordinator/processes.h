// The processes of an attempt, and the replicas that its workers form. Pure.
#pragma once

#include <optional>

#include "paceline/decisions/coordinator/attempt_options.h"
#include "paceline/decisions/coordinator/job_facts.h"
#include "paceline/decisions/coordinator/measuring.h"
#include "paceline/decisions/coordinator/replica_table.h"
#include "paceline/decisions/coordinator/server_fleet.h"
#include "paceline/decisions/coordinator/shard_lengths.h"
#include "paceline/decisions/coordinator/worker_table.h"

namespace paceline::coordinator {

struct Processes {
  // The references outlive this.
  Processes(const AttemptOptions& options, Outbox& out)
      : workers(options.job),
        replicas(options.job.plan, options.new_key),
        servers(options.job, out, options.new_key, options.folder_on),
        measuring(servers, out, options.job.hosts > 1 ? servers.place(options.host) : HostPlace(0)),
        shard_lengths(options.restart ? options.restart->shard_lengths : std::vector<ShardRecords>{}) {}

  bool all_gone() const { return workers.size() == 0 && servers.none_here() && !measuring.here(); }

  WorkerTable workers;
  ReplicaTable replicas;
  ServerFleet servers;
  Measuring measuring;
  std::optional<JobFacts> job_facts;  // set once the first worker has attached
  ShardLengths shard_lengths;
};

}  // namespace paceline::coordinator

// Has the members of a commit sum their gradients among themselves; of a pipeline, its first stage does.
// Pure.
#pragma once

#include "paceline/decisions/control/orders.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/coordinator/replica_table.h"

namespace paceline::coordinator {

// Whether a job's members do, in the memory of their host. Those of several hosts have servers that add what
// passes (exchange/commit_exchange.h).
inline bool reduces_in_memory(const config::JobConfig& job) { return job.reduce_in_group && job.hosts == 1; }

// Tells every member who the others are, before it is released. Returns false and tells no member if there is
// only one, or if not all of them are here: then the servers sum.
bool order_reduction(const control::CommitRecord& record, ReplicaTable& replicas, Outbox& out);

}  // namespace paceline::coordinator

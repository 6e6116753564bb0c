// Has the members of a commit sum their gradients among themselves; of a pipeline, its first stage does.
// Pure.
#pragma once

#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/coordinator/replica_table.h"

namespace paceline::coordinator {

// Tells every member who the others are, before it is released. Returns false and tells no member if there is
// only one, or if not all of them are here: then the servers sum.
bool order_reduction(const control::CommitRecord& record, ReplicaTable& replicas, Outbox& out);

}  // namespace paceline::coordinator

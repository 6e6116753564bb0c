// A commit of the Controller as the order to the servers. Pure.
#pragma once

#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

// Without what only several hosts, copies or sums among the members need.
Apply apply_order(const control::CommitRecord& record);

}  // namespace paceline::coordinator

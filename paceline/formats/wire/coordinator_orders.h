// The coordinator's orders, as they go over the wire.
#pragma once

#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::wire {

WorkerOrder to_wire(const coordinator::WorkerOrder& order);
ServerOrder to_wire(const coordinator::ServerOrder& order);
EvaluatorOrder to_wire(const coordinator::EvaluatorOrder& order);

}  // namespace paceline::wire

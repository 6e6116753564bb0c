// The messages of processes, from the wire, as the coordinator's own types. A message that makes no sense is
// Unreadable; one that this version does not know is nothing.
#pragma once

#include "paceline/decisions/coordinator/messages.h"
#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::wire {

coordinator::WorkerMessage from_wire(const WorkerMessage& message);
coordinator::ServerMessage from_wire(const ServerMessage& message);
coordinator::EvaluatorMessage from_wire(const EvaluatorMessage& message);

}  // namespace paceline::wire

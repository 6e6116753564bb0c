// The bytes of a server's exchange with other hosts, for its heartbeats.
#pragma once

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/exchange/exchange.h"

namespace paceline::server_process {

// Any thread.
void report_traffic(exchange::Exchange& exchange, wire::Heartbeat& beat);

}  // namespace paceline::server_process

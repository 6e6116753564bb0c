#include "paceline/processes/server_process/traffic.h"

namespace paceline::server_process {

void report_traffic(exchange::Exchange& exchange, wire::Heartbeat& beat) {
  int host = 0;
  for (const auto& [gradients, weights] : exchange.sent_bytes()) {
    if (gradients + weights > 0) {
      wire::SentBytes& sent = *beat.add_sent();
      sent.set_host(host);
      sent.set_gradients(gradients);
      sent.set_weights(weights);
    }
    ++host;
  }
  host = 0;
  for (const links::Received& so_far : exchange.received()) {
    if (so_far.bytes > 0) {
      wire::Received& received = *beat.add_received();
      received.set_host(host);
      received.set_bytes(so_far.bytes);
      received.set_busy_ns(so_far.busy.count());
      received.set_times(so_far.times);
    }
    ++host;
  }
}

}  // namespace paceline::server_process

#include "paceline/processes/server_process/session.h"

#include <utility>

#include "paceline/formats/wire/disconnect.h"

namespace paceline::server_process {

absl::Status serve(Session& session, server::Server& server) {
  while (auto order = session.next()) {
    if (order->has_disconnect()) return wire::outcome_of_job(order->disconnect());
    const absl::Status status = server.take(*std::move(order));
    if (status.ok()) continue;
    // The server of the other host may have left because the run is over.
    const bool comes_again = server.lost_host();
    return session.unless_disconnected(comes_again ? absl::AbortedError(status.message()) : status);
  }
  return wire::coordinator_lost();
}

}  // namespace paceline::server_process

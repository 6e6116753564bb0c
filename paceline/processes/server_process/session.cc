#include "paceline/processes/server_process/session.h"

#include <utility>

#include "paceline/formats/wire/disconnect.h"

namespace paceline::server_process {

absl::Status serve(Session& session, server::Server& server, ReadyWatch::Bell bell) {
  // The server of the other host may have left because the run is over.
  const auto failed = [&](const absl::Status& status) {
    return session.unless_disconnected(server.lost_host() ? absl::AbortedError(status.message()) : status);
  };
  ReadyWatch watch(server, std::move(bell));
  while (auto order = session.next()) {
    if (order->has_disconnect()) return wire::outcome_of_job(order->disconnect());
    if (const absl::Status status = watch.take(*std::move(order)); !status.ok()) return failed(status);
  }
  const absl::Status failure = watch.failure();
  return failure.ok() ? wire::coordinator_lost() : failed(failure);
}

}  // namespace paceline::server_process

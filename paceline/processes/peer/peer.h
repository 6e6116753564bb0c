// The common part of every process that works for a coordinator: it connects to the coordinator, and connects
// again after a loss.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include "paceline/formats/wire/disconnect.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/peer/exit_report.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/connection.h"

namespace paceline::peer {

using WorkerConnection = rpc::Connection<wire::WorkerMessage, wire::WorkerOrder>;
using ServerConnection = rpc::Connection<wire::ServerMessage, wire::ServerOrder>;
using EvaluatorConnection = rpc::Connection<wire::EvaluatorMessage, wire::EvaluatorOrder>;
using Stub = wire::Coordinator::Stub;

struct PeerOptions {
  std::string coordinator;  // HOST:PORT, or @FILE; the file has the address, and is read again after a loss
  std::string certs;        // a folder of certificates; empty: no TLS
  std::string token_file;   // empty: certs/token
  double patience_s = 60;   // how long to wait for a coordinator that is gone
  double first_patience_s = 60;  // how long to wait for one that does not listen yet
};

// The proofs that a process of this role shows. Errors: those of the files.
absl::StatusOr<rpc::Access> read_access(const std::string& certs, const std::string& token_file,
                                        security::Role role);

// Waits until a coordinator would let this process in, and returns its address. Errors: why it would not, or
// that no coordinator came.
absl::StatusOr<std::string> wait_for_coordinator(const std::string& option, const rpc::Access& access,
                                                 double patience_s);

std::unique_ptr<Stub> coordinator_stub(const std::string& address, const rpc::Access& access,
                                       std::chrono::milliseconds limit = rpc::kEnterLimit);

// One session of a process with a coordinator: from the first word to the end of its stream.
using Session = std::function<absl::Status(Stub& stub, const rpc::Access& access)>;

// Runs sessions until one ends for good. Waits, for a limited time, for a coordinator that is not there or is
// gone; a process that was told to come again does so at once. Errors: the session's; Unavailable if the
// coordinator did not come back.
absl::Status with_coordinator(const PeerOptions& options, security::Role role, const Session& session);

// The reason why the session over this connection ended: tells a refused call from a lost one.
template <class Out, class In>
absl::Status end_of_session(rpc::Connection<Out, In>& connection, const absl::Status& outcome) {
  if (outcome != wire::coordinator_lost()) return outcome;
  const grpc::Status end = connection.end();
  const bool refused = end.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
                       end.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  if (!refused) return outcome;
  return absl::FailedPreconditionError("the coordinator refused this process: " + end.error_message());
}

using Meaning = absl::Status (*)(const wire::Disconnect&);

// Returns `outcome`, this process's error, unless the coordinator sends a disconnect in time.
template <class Out, class In>
absl::Status unless_disconnected(rpc::Connection<Out, In>& connection, const absl::Status& outcome,
                                 Meaning meaning = wire::outcome_of,
                                 std::chrono::seconds patience = std::chrono::seconds(2)) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (connection.wait(until - std::chrono::steady_clock::now())) {
    const auto order = connection.next();
    if (!order) return wire::coordinator_lost();
    if (order->has_disconnect()) return meaning(order->disconnect());
  }
  return outcome;
}

// The outcome of an order. If another process's memory is gone (NotFound, Aborted), its owner has ended, and often the
// whole job.
// If nothing can be sent any more, a disconnect may have come long ago, while this process was busy. In both
// cases a disconnect decides.
template <class Out, class In>
absl::Status unless_over(rpc::Connection<Out, In>& connection, const absl::Status& outcome,
                         std::chrono::seconds patience = std::chrono::seconds(2)) {
  const bool may_be =
      absl::IsNotFound(outcome) || absl::IsAborted(outcome) || outcome == wire::coordinator_lost();
  return may_be ? unless_disconnected(connection, outcome, wire::outcome_of_job, patience) : outcome;
}

}  // namespace paceline::peer

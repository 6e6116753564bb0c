// The common part of every process that works for a coordinator: it connects to the coordinator, and connects
// again after a loss.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include "paceline/peer/exit_report.h"
#include "paceline/rpc/access.h"
#include "paceline/rpc/connection.h"
#include "paceline/wire/disconnect.h"
#include "paceline/wire/paceline.grpc.pb.h"

namespace paceline::peer {

using WorkerConnection = rpc::Connection<wire::WorkerMessage, wire::WorkerOrder>;
using ServerConnection = rpc::Connection<wire::ServerMessage, wire::ServerOrder>;
using EvaluatorConnection = rpc::Connection<wire::EvaluatorMessage, wire::EvaluatorOrder>;
using Stub = wire::Coordinator::Stub;

struct PeerOptions {
  std::string coordinator;       // HOST:PORT, or @FILE that says so, which is read again when it is lost
  std::string certs;             // a folder of certificates; empty: no TLS
  std::string token_file;        // empty: certs/token
  double patience_s = 60;        // with a coordinator that is gone
  double first_patience_s = 60;  // with one that does not listen yet
};

// What a process of this role shows. Errors: those of the files.
absl::StatusOr<rpc::Access> read_access(const std::string& certs, const std::string& token_file,
                                        security::Role role);

// Until a coordinator would let this process in. Its address. Errors: why it would not, or nobody came.
absl::StatusOr<std::string> wait_for_coordinator(const std::string& option, const rpc::Access& access,
                                                 double patience_s);

std::unique_ptr<Stub> coordinator_stub(const std::string& address, const rpc::Access& access,
                                       std::chrono::milliseconds limit = rpc::kEnterLimit);

// One session of a process with a coordinator: from the first word to the end of its stream.
using Session = std::function<absl::Status(Stub& stub, const rpc::Access& access)>;

// Runs sessions until one ends for good. A coordinator that is not there, or is gone, is waited for, for a
// limited time; one that was told to come again does so at once. Errors: the session's; Unavailable when
// the coordinator did not come back.
absl::Status with_coordinator(const PeerOptions& options, security::Role role, const Session& session);

// Why a session ended, of whose connection: a call that was refused is not one that was lost.
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

// The error of this process, unless the coordinator sends a disconnect within two seconds.
template <class Out, class In>
absl::Status unless_disconnected(rpc::Connection<Out, In>& connection, const absl::Status& outcome,
                                 Meaning meaning = wire::outcome_of) {
  constexpr std::chrono::seconds kPatience{2};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (connection.wait(until - std::chrono::steady_clock::now())) {
    const auto order = connection.next();
    if (!order) return wire::coordinator_lost();
    if (order->has_disconnect()) return meaning(order->disconnect());
  }
  return outcome;
}

// What an order came to. Memory that is not there any more is its owner's end, and mostly the job's. And
// where nothing can be sent any more, the disconnect may have come long ago, to a process that was busy.
template <class Out, class In>
absl::Status unless_over(rpc::Connection<Out, In>& connection, const absl::Status& outcome) {
  const bool may_be = absl::IsNotFound(outcome) || outcome == wire::coordinator_lost();
  return may_be ? unless_disconnected(connection, outcome, wire::outcome_of_job) : outcome;
}

}  // namespace paceline::peer

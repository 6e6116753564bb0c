// What every process that works for a coordinator does first.
#pragma once

#include <memory>
#include <string>

#include <absl/status/status.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "paceline/rpc/connection.h"
#include "paceline/rpc/paceline.grpc.pb.h"

namespace paceline::cli {

using WorkerConnection = rpc::Connection<rpc::wire::WorkerMessage, rpc::wire::WorkerOrder>;
using ServerConnection = rpc::Connection<rpc::wire::ServerMessage, rpc::wire::ServerOrder>;
using EvaluatorConnection = rpc::Connection<rpc::wire::EvaluatorMessage, rpc::wire::EvaluatorOrder>;

inline std::unique_ptr<rpc::wire::Coordinator::Stub> coordinator_stub(const std::string& address) {
  return rpc::wire::Coordinator::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

inline absl::Status coordinator_lost() { return absl::UnavailableError("the coordinator is gone"); }

// OK when the job is over; an error when this process is not wanted in it.
inline absl::Status farewell(const rpc::wire::Goodbye& goodbye) {
  if (!goodbye.refused()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the coordinator sent this process away: {}", goodbye.why()));
}

}  // namespace paceline::cli

// A status of ours as gRPC carries it, and back: both count codes alike.
#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace paceline::wire {

inline grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

inline absl::Status from_grpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace paceline::wire

// How the processes of a job identify each other: TLS with certificates on both sides if the job has them,
// and its token with every call. Without TLS, connections begin with a proof of the token (gate.h). Both
// sides of the control plane.
//
// Invariant: a call that does not show the job's token, or comes from a certificate of another job or
// role, never reaches the coordinator.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <grpcpp/grpcpp.h>

#include "paceline/security/certificates.h"

namespace paceline::rpc {

struct Access {
  std::optional<security::Credentials> credentials;  // none: no TLS
  std::string token;
};

// How long a coordinator has to show its token.
inline constexpr std::chrono::milliseconds kEnterLimit{5000};

// To a coordinator. It notices within some 15 s when the other side's host is cut off. Without certificates
// it connects now, and both sides show their tokens: where that fails each call does, and a later channel may
// not.
std::shared_ptr<grpc::Channel> channel_to(const std::string& address, const Access& access,
                                          std::chrono::milliseconds limit = kEnterLimit);
// Whether somebody is at that address who would let this process in, in a line for people. Errors: as
// security::preflight().
absl::Status preflight(const std::string& address, const Access& access, std::chrono::milliseconds limit);
// Says with a call which program this is, and shows the job's token. Requires: once for a call, before it
// starts.
void introduce(grpc::ClientContext& context, const Access& access);

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Access& access);
// OK when a process of one of these roles may make the call; otherwise PERMISSION_DENIED, and why.
grpc::Status admit(const grpc::CallbackServerContext& context, const Access& access,
                   const std::vector<security::Role>& roles);
// OK when the call comes from the same version of Paceline, with the same messages; otherwise
// PERMISSION_DENIED, and what to do.
grpc::Status same_program(const grpc::CallbackServerContext& context);

}  // namespace paceline::rpc

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

#include "paceline/transport/security/certificates.h"

namespace paceline::rpc {

struct Access {
  std::optional<security::Credentials> credentials;  // none: no TLS
  std::string token;
};

// How long a coordinator may take to show its token.
inline constexpr std::chrono::milliseconds kEnterLimit{5000};

// A channel to a coordinator, which notices within about 15 s that the other side's host is cut off. Without
// certificates it connects now, and both sides show their tokens. If that fails, each call fails; a later
// channel may succeed.
std::shared_ptr<grpc::Channel> channel_to(const std::string& address, const Access& access,
                                          std::chrono::milliseconds limit = kEnterLimit);
// Checks whether a coordinator at that address would let this process in; if not, the error says why in one
// line. Errors: those of security::preflight().
absl::Status preflight(const std::string& address, const Access& access, std::chrono::milliseconds limit);
// Adds this program's version and the job's token to a call. Requires: once for each call, before it starts.
void introduce(grpc::ClientContext& context, const Access& access);

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Access& access);
// OK if a process of one of these roles may make the call; otherwise PERMISSION_DENIED with the reason.
grpc::Status admit(const grpc::CallbackServerContext& context, const Access& access,
                   const std::vector<security::Role>& roles);
// OK if the call comes from the same version of Paceline, with the same messages; otherwise PERMISSION_DENIED
// with advice.
grpc::Status same_program(const grpc::CallbackServerContext& context);

}  // namespace paceline::rpc

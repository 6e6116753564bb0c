// A gRPC service on a listening socket, behind a gate.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include "paceline/base/listening_socket.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/gate.h"

namespace paceline::rpc {

class Port {
 public:
  // Serves connections to that socket. The service outlives the port. `refused`: gets one line about each
  // process that the gate did not let in; called from any thread. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Port>> open(ListeningSocket listening, const Access& access,
                                                    grpc::Service& service,
                                                    std::function<void(const std::string&)> refused);
  // The same at `address`; "127.0.0.1:0" takes any free port. Errors: also Unavailable if the address cannot
  // be used.
  static absl::StatusOr<std::unique_ptr<Port>> open(const std::string& address, const Access& access,
                                                    grpc::Service& service,
                                                    std::function<void(const std::string&)> refused);
  // Ends the calls that are under way.
  ~Port();

  // The address under which others reach it.
  const std::string& address() const { return address_; }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  Port(std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server, std::string address)
      : acceptor_(std::move(acceptor)), server_(std::move(server)), address_(std::move(address)) {}

  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Gate> gate_;  // destroyed first
  std::string address_;
};

// Listens at network.listen. Waits a few seconds for a port that is taken, because the processes of a run that was killed
// a moment ago may still have it. Errors: Unavailable, in one line for people.
absl::StatusOr<ListeningSocket> listen_for_job(const std::string& address);

}  // namespace paceline::rpc

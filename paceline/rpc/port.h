// Where a gRPC service listens.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include "paceline/base/listening_socket.h"
#include "paceline/rpc/access.h"
#include "paceline/rpc/gate.h"

namespace paceline::rpc {

class Port {
 public:
  // Takes connections of that socket. The service outlives the port. `refused`: one line about whom the gate
  // did not let in; from any thread. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Port>> open(ListeningSocket listening, const Access& access,
                                                    grpc::Service& service,
                                                    std::function<void(const std::string&)> refused);
  // The same, where `address` ("127.0.0.1:0" takes any free port) is. Errors: also Unavailable when it cannot
  // be had.
  static absl::StatusOr<std::unique_ptr<Port>> open(const std::string& address, const Access& access,
                                                    grpc::Service& service,
                                                    std::function<void(const std::string&)> refused);
  // Ends calls that are under way.
  ~Port();

  // Where it is found.
  const std::string& address() const { return address_; }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  Port(std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server, std::string address)
      : acceptor_(std::move(acceptor)), server_(std::move(server)), address_(std::move(address)) {}

  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Gate> gate_;  // goes first
  std::string address_;
};

// Listens as network.listen says. Errors: Unavailable, in one line for people.
absl::StatusOr<ListeningSocket> listen_for_job(const std::string& address);

}  // namespace paceline::rpc

// Where a gRPC service listens.
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

namespace paceline::rpc {

class Port {
 public:
  // Listens on `address` ("127.0.0.1:0" takes any free port). The service outlives the port. Errors:
  // Unavailable when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<Port>> open(
      const std::string& address, const std::shared_ptr<grpc::ServerCredentials>& credentials,
      grpc::Service& service);
  // Ends calls that are under way.
  ~Port();

  // Where it is found.
  const std::string& address() const { return address_; }

 private:
  Port(std::unique_ptr<grpc::Server> server, std::string address)
      : server_(std::move(server)), address_(std::move(address)) {}

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace paceline::rpc

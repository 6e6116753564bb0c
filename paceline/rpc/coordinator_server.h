// The coordinator's port: a gRPC server that feeds a Coordinator on its event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/event_loop.h"
#include "paceline/rpc/access.h"
#include "paceline/rpc/coordinator.h"
#include "paceline/rpc/port.h"

namespace paceline::rpc {

class CoordinatorServer {
 public:
  struct Door {
    Access access;
    // Answers whoever watches; runs on the loop.
    std::function<void(const wire::StatusRequest&, wire::StatusReply&)> status;
    // One line about a process that was refused; from any thread.
    std::function<void(const std::string&)> notice;
  };

  // Listens on `address` ("127.0.0.1:0" takes any free port). All outlive the server. Errors: Unavailable
  // when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> start(const std::string& address, EventLoop& loop,
                                                                  Coordinator& coordinator, Door door);
  ~CoordinatorServer();

  // Where peers find it.
  const std::string& address() const { return port_->address(); }

 private:
  class Service;
  CoordinatorServer();

  std::unique_ptr<Service> service_;
  std::unique_ptr<Port> port_;  // goes first
};

}  // namespace paceline::rpc

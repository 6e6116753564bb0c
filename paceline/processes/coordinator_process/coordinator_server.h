// The coordinator's port: a gRPC server that feeds a Coordinator on its event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/event_loop.h"
#include "paceline/processes/coordinator_process/coordinator.h"
#include "paceline/processes/coordinator_process/file_calls.h"
#include "paceline/processes/coordinator_process/run_keeping.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/port.h"

namespace paceline::coordinator_process {

class CoordinatorServer {
 public:
  struct Options {
    rpc::Access access;
    // Answers requests for the status; runs on the loop.
    std::function<void(const wire::StatusRequest&, wire::StatusReply&)> status;
    // Serves a server's call about a file, on a thread of the call's own.
    std::function<absl::Status(FileCalls::Call&)> file{};
    // Serves the call of the host that keeps the run, on a thread of the call's own.
    std::function<absl::Status(RunKeeping::Call&)> keep{};
    // Gets one line about a process that was refused; called from any thread.
    std::function<void(const std::string&)> notice;
    int most_streams = 1024;  // the limit for all peers together
  };

  // Serves connections to that socket (listen_for_job). All other arguments outlive the server. Without a coordinator, as
  // between two attempts, only requests for the status are answered: processes wait in their streams, which end with the
  // server. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> start(ListeningSocket listening, EventLoop& loop,
                                                                  Coordinator* coordinator, Options options);
  ~CoordinatorServer();

  // The address under which peers find it.
  const std::string& address() const { return port_->address(); }

 private:
  class Service;
  CoordinatorServer();

  std::unique_ptr<Service> service_;
  std::unique_ptr<rpc::Port> port_;  // destroyed first
};

}  // namespace paceline::coordinator_process

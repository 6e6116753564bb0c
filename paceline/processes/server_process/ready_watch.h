// Watches a bell for a server that knows a commit before it is ordered: a worker rings when its gradient is ready, and the
// server looks whether all are (server/server.h). A thread of its own does this, in turn with that of the orders, because
// one thread cannot wait for both.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include <absl/status/status.h>

#include "paceline/parameters/memory/weight_board.h"
#include "paceline/processes/server/server.h"

namespace paceline::server_process {

class ReadyWatch {
 public:
  // Called in turn. Null: there is no bell yet.
  using Bell = std::function<std::shared_ptr<const memory::BoardBell>()>;

  // The server outlives this.
  ReadyWatch(server::Server& server, Bell bell) : server_(server), bell_(std::move(bell)) {}
  ~ReadyWatch();
  ReadyWatch(const ReadyWatch&) = delete;
  ReadyWatch& operator=(const ReadyWatch&) = delete;

  // Has the server take the order. Errors: those of Server::take(), or of an earlier look.
  absl::Status take(wire::ServerOrder order);
  // The error of a look, which the coordinator has been told.
  absl::Status failure();

 private:
  void run(const std::stop_token& stop);

  server::Server& server_;
  const Bell bell_;
  std::mutex turn_;      // guards the server, bell_() and what follows
  absl::Status failed_;  // an error of a look
  std::jthread thread_;  // runs once a commit was expected
};

}  // namespace paceline::server_process

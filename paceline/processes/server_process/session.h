// A server's session with its coordinator, as the process sees it.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/server/outbox.h"
#include "paceline/processes/server/server.h"
#include "paceline/processes/server_process/ready_watch.h"
#include "paceline/records/store/checkpoint_files.h"

namespace paceline::server_process {

class Session : public server::Outbox {
 public:
  // The next order; waits for it. Nothing once the session has ended and all orders were taken.
  virtual std::optional<wire::ServerOrder> next() = 0;
  // Returns `outcome`, this server's error, unless the coordinator sends a disconnect in time.
  virtual absl::Status unless_disconnected(const absl::Status& outcome) = 0;
  // The files of a checkpoint in a folder of this host; `by_call`: of another host, and `names` are the files that
  // are there. Calls under way end when a stop is asked for. Any thread.
  virtual std::unique_ptr<store::CheckpointFiles> files(bool by_call, const std::string& dir,
                                                        std::stop_token stop,
                                                        std::vector<std::string> names) = 0;
};

// Has the server take orders in sequence, until the disconnect. An error has been told to the coordinator.
absl::Status serve(Session& session, server::Server& server, ReadyWatch::Bell bell);

}  // namespace paceline::server_process

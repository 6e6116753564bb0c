// A coordinator as a child of this process, from its start until it listens.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/processes/launch/child_process.h"

namespace paceline::launch {

struct CoordinatorProcess {
  ChildProcess child;
  // the address at which it listens; or the reason why it ended or will be given up
  absl::StatusOr<std::string> address;
};

// `words`: the options besides the run's folder, in which its log is written. The coordinator accepts
// connections from `listening`, which stays open here, so that no other process gets the port when it dies.
// Errors: the process could not be started.
absl::StatusOr<CoordinatorProcess> start_coordinator_process(const std::string& run,
                                                             const std::vector<std::string>& words,
                                                             const ListeningSocket& listening);

}  // namespace paceline::launch

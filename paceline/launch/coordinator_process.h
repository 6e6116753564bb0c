// A coordinator as a child of this process, from its start until it listens.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/launch/child_process.h"

namespace paceline::launch {

struct CoordinatorProcess {
  ChildProcess child;
  absl::StatusOr<std::string> address;  // where it listens; or why it ended, or is about to be given up
};

// `words`: its options, besides the folder of the run. Its log is in that folder. It takes connections from
// `listening`, which stays open here, so that no other process gets the port when it dies. Errors: there is
// no such process.
absl::StatusOr<CoordinatorProcess> start_coordinator_process(const std::string& run,
                                                             const std::vector<std::string>& words,
                                                             const ListeningSocket& listening);

}  // namespace paceline::launch

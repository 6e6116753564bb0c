// The server process: one shard of the weights and of the optimizer's state.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/cli/peer.h"

namespace paceline::cli {

struct ServerRoleOptions {
  PeerOptions reach{};
  int shard = 0;           // from 0; where the job has several hosts, which host this is
  std::string exchange{};  // address of this host that servers of other hosts reach; empty: there are none
  bool clear = false;      // what goes to them is not sealed, as cluster.seal of the job has it
};

// Serves a shard of the coordinator's job, until the job is over.
absl::Status run_server(const ServerRoleOptions& options);

}  // namespace paceline::cli

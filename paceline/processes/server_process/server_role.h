// The server process: one shard of the weights and of the optimizer's state.
#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/processes/peer/peer.h"

namespace paceline::server_process {

struct ServerRoleOptions {
  peer::PeerOptions reach{};
  int shard = 0;           // from 0; where the job has several hosts, which host this is
  std::string exchange{};  // address of this host that servers of other hosts reach; empty: there are none
  // The ends of the keep in which its launcher keeps descriptors of its memory; empty: there is none.
  std::vector<int> keep{};
  std::string fabric = "sealed";  // name of the fabric to servers of other hosts, as in the job; or "auto"
};

// Serves a shard of the coordinator's job, until the job is over.
absl::Status run_server(const ServerRoleOptions& options);

}  // namespace paceline::server_process

// The worker process: one device, which is a replica or a stage of one. It is stateless: it pulls weights,
// computes a gradient, and reports that.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/processes/peer/peer.h"

namespace paceline::compute {

struct WorkerRoleOptions {
  peer::PeerOptions reach;
  std::string name;      // its place in the job, "w2"
  std::string address;   // address of this host for stages on other hosts; empty: it has none
  std::string job_file;  // job file of this host, which says what may be started and read here; empty: none
};

// Works for the job of that coordinator, until the job is over.
absl::Status run_worker(const WorkerRoleOptions& options);

}  // namespace paceline::compute

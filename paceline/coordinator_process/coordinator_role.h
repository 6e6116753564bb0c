// The coordinator process: one per job. It hosts the Controller and records the run.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/runs/run_checkpoints.h"

namespace paceline::coordinator_process {

struct CoordinatorRoleOptions {
  std::string run;  // the run folder, with its job.toml
  runs::GoOn go_on = runs::GoOn::kNo;
  std::string listen{};  // where, instead of where the job says
  int listen_fd = -1;    // a socket that listens there already; −1: none
  int address_fd = -1;   // where to write the address it listens on, a line; −1: standard output
  std::string certs{};   // instead of the job's, as is the next one
  std::string token_file{};
  // Nobody works for this run yet: where its token is kept in the run folder it becomes another one, as the
  // folder's maker knows the one that is there.
  bool new_token = false;
  // Where the job has several hosts:
  int host = 0;                  // this one
  std::string reached_at{};      // its address for the others; empty: none is to come here by the run folder
  std::optional<int> without{};  // a host that is lost and not waited for any more
  bool hosts_start = false;      // all hosts may be starting, one after the other
  bool shared_folder = false;    // all hosts see the run folder, whatever the job says
};

// Runs the job to its end, going back to the newest checkpoint when a server is lost. Errors: why it could
// not go on.
absl::Status run_coordinator(const CoordinatorRoleOptions& options);

}  // namespace paceline::coordinator_process

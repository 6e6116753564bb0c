// The coordinator process: one per job. It hosts the Controller and records the run.
#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/processes/runs/run_checkpoints.h"

namespace paceline::coordinator_process {

struct CoordinatorRoleOptions {
  std::string run;  // the run folder, with its job.toml
  runs::GoOn go_on = runs::GoOn::kNo;
  std::string listen{};  // the address to listen on; empty: the job's
  int listen_fd = -1;    // a socket that listens there already; −1: none
  int address_fd = -1;   // the descriptor to which it writes its address, as a line; −1: standard output
  std::string certs{};   // this and token_file replace the job's
  std::string token_file{};
  // True if no process works for this run yet. Then a token that is kept in the run folder is replaced,
  // because the maker of the folder knows the old one.
  bool new_token = false;
  // The rest is for a job with several hosts.
  int host = 0;              // this host
  std::string reached_at{};  // this host's address for the others; empty: the run folder sends nobody here
  std::optional<int> without{};  // a host that is lost and not waited for any more
  bool hosts_start = false;      // all hosts may be starting, one after the other
  bool only_checkpoint = false;  // later weights that servers still have do not count
  bool shared_folder = false;    // all hosts see the run folder, even if the job says no
};

// Runs the job to its end, going back to the newest checkpoint when a server is lost. Errors: the reason why
// it could not go on.
absl::Status run_coordinator(const CoordinatorRoleOptions& options);

}  // namespace paceline::coordinator_process

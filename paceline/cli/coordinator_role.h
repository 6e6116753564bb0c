// The coordinator process: one per job. It hosts the Controller and keeps the run's books.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/cli/run_checkpoints.h"

namespace paceline::cli {

struct CoordinatorRoleOptions {
  std::string run;  // the run folder, with its job.toml
  GoOn go_on = GoOn::kNo;
  std::string listen{};  // where, instead of where the job says
  int address_fd = -1;   // where to write the address it listens on, a line; −1: standard output
};

// Runs the job to its end, going back to the newest checkpoint when a server is lost. Errors: why it could
// not go on.
absl::Status run_coordinator(const CoordinatorRoleOptions& options);

}  // namespace paceline::cli

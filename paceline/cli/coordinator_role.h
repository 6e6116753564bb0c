// The coordinator process: one per job. It hosts the Controller and keeps the run's books.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct CoordinatorRoleOptions {
  std::string run;      // the run folder, with its job.toml
  bool resume = false;  // from the newest checkpoint in it
  int address_fd = -1;  // where to write the address it listens on, a line; −1: standard output
};

// Runs the job to its end. Errors: why it could not go on.
absl::Status run_coordinator(const CoordinatorRoleOptions& options);

}  // namespace paceline::cli

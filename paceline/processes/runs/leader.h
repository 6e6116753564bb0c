// RUN/leader: the address of the host that leads a run on several hosts. Each coordinator writes it when it
// listens, for hosts that have lost the previous one.
#pragma once

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

struct Leader {
  int host = 0;         // the host's number in the job
  std::string address;  // HOST:PORT, for the other hosts
  friend bool operator==(const Leader&, const Leader&) = default;
};

absl::Status write_leader(const store::RunPaths& run, const Leader& leader);
// Errors: those of the file; InvalidArgument if it has other contents.
absl::StatusOr<Leader> read_leader(const store::RunPaths& run);

// RUN/next_leader: the host that leads the run if this host does not come back, when hosts share no disk.
absl::Status write_next_leader(const store::RunPaths& run, const Leader& leader);
absl::StatusOr<Leader> read_next_leader(const store::RunPaths& run);

}  // namespace paceline::runs

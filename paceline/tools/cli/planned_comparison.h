// The trainings of a comparison, as a file in its folder: with it a stopped comparison can go on, even if the
// job file has changed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/records/tables/tables.h"

namespace paceline::launch {
class ForkServer;
}

namespace paceline::cli {

struct PlannedComparison {
  std::string job_toml;  // the resolved text
  std::string program;   // the program's answer about itself, if the job has one
  // The same for a run that is planned: it has the model's units and the cards' free memory. Empty: no run is planned.
  std::string planned_program{};
  std::string data_note{};  // a note about the data for people
  // for the jobs' processes; only in the process that planned it
  std::shared_ptr<launch::ForkServer> fork_server{};
  bool in_virtual_time = false;
  std::vector<std::vector<std::string>> runs;  // for each run in turn, the key=value laid over the job
};

// The number of its runs: in all, and with one policy and one way to plan.
report::PlannedRuns counts_of(const PlannedComparison& planned);

absl::Status write_planned(const std::string& folder, const PlannedComparison& planned);

// Errors: the folder is not a comparison's, or its file is damaged.
absl::StatusOr<PlannedComparison> read_planned(const std::string& folder);

}  // namespace paceline::cli

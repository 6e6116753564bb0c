// What a comparison trains, as it lies in the comparison's folder: with it a comparison goes on after it was
// stopped, whatever became of the job file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::launch {
class ForkServer;
}

namespace paceline::cli {

struct PlannedComparison {
  std::string job_toml;                               // as resolved
  std::string program;                                // what the job's program says of itself, if it has one
  std::string data_note{};                            // what people should know of the data
  std::shared_ptr<launch::ForkServer> fork_server{};  // of its jobs, in the process that planned it
  bool in_virtual_time = false;
  std::vector<std::vector<std::string>> runs;  // for each run in turn, the key=value laid over the job
};

absl::Status write_planned(const std::string& folder, const PlannedComparison& planned);

// Errors: the folder is not a comparison's, or its file is damaged.
absl::StatusOr<PlannedComparison> read_planned(const std::string& folder);

}  // namespace paceline::cli

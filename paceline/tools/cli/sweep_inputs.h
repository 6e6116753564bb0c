// The identity of what a training reads beside its job: its samples, and its initial weights.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::cli {

class SweepInputs {
 public:
  // A line with the numbers of samples and digests of the contents, which is the same wherever the files are. Reads each
  // data set and each file of weights once. Errors: those of the files.
  absl::StatusOr<std::string> of(const config::JobConfig& job);

 private:
  absl::StatusOr<std::string> data_of(const config::JobConfig& job);
  absl::StatusOr<std::string> weights_of(const std::string& file);

  std::vector<std::pair<config::JobConfig, std::string>> data_;  // a job of each data set
  std::map<std::string, std::string> weights_;                   // keyed by file
};

}  // namespace paceline::cli

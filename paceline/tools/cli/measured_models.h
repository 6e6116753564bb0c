// The models of planned jobs as they were measured here: each once for all trainings of a command, so that two of these
// differ by their settings alone, and not by the noise of two measurements.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::cli {

class MeasuredModels {
 public:
  // With those that an earlier command kept in this file; there may be no such file. Errors: it is damaged.
  static absl::StatusOr<MeasuredModels> read(const std::filesystem::path& file);

  // The setting "layer=[…]" for a job that is to be planned and does not describe its built-in model; empty for any
  // other job. Jobs with the same [model] and [data] get the same setting. `text`: the job's resolved text. Errors: those
  // of the data and the model.
  absl::StatusOr<std::string> layers_of(const config::JobConfig& job, const std::string& text);

  // Keeps them for later commands; does nothing if none is new. Errors: FailedPrecondition if another command measured
  // one of them meanwhile.
  absl::Status write(const std::filesystem::path& file) const;

 private:
  std::map<std::string, std::string> settings_;  // keyed by a hash of [model] and [data]
  bool any_new_ = false;
};

}  // namespace paceline::cli

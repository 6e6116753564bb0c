// `paceline plan`: how a cluster is best used for a model, before anything is rented or started.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct PlanOptions {
  std::string cluster_file;
  std::string json;           // where one JSON object goes: a file, "-": standard output; empty: a picture
  std::string write_profile;  // a file for the model's layers, as [model] profile reads them; empty: none
};

absl::Status plan_command(const PlanOptions& options);

}  // namespace paceline::cli

// `paceline plan`: the best use of a cluster for a model, before anything is rented or started.
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::cli {

struct PlanOptions {
  std::string cluster_file;
  std::string json;           // a file for one JSON object, or "-": standard output; empty: a picture
  std::string write_profile;  // a file for the model's layers, in the form of [model] profile; empty: none
};

absl::Status plan_command(const PlanOptions& options);

}  // namespace paceline::cli

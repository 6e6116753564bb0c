// Reading a cluster file with all that it names: a file of layers beside it, or a model to be measured here.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/formats/config/cluster_file.h"

namespace paceline::cli {

// Reads a cluster file, and fills in the model's layers.
absl::StatusOr<config::ClusterFile> read_cluster(const std::string& file);
// Reads a cluster file without a model, and gives it these layers.
absl::StatusOr<config::ClusterFile> read_cluster(const std::string& file, planner::ModelProfile model);
// The layers of a file that has them alone.
absl::StatusOr<planner::ModelProfile> read_profile(const std::string& file);

}  // namespace paceline::cli

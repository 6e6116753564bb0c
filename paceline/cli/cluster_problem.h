// Reading a cluster file with all that it names: a file of layers beside it, or a model to be measured here.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/config/cluster_file.h"

namespace paceline::cli {

// Reads a cluster file, and fills in the model's layers.
absl::StatusOr<config::ClusterFile> read_cluster(const std::string& file);

}  // namespace paceline::cli

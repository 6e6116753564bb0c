// `paceline plan`: the best use of a cluster for a model, before anything is rented or started.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/tools/cli/profile_command.h"

namespace paceline::cli {

struct PlanOptions {
  std::string file;  // the cluster file; or, if `cluster_file` is named, a program
  std::string cluster_file;
  std::string profile;        // a file with the model's layers, which the cluster file does not have then
  ProfileOptions measured;    // how a program is measured
  std::string json;           // a file for one JSON object, or "-": standard output; empty: a picture
  std::string write_profile;  // a file for the model's layers, in the form of [model] profile; empty: none
};

absl::Status plan_command(PlanOptions options);

}  // namespace paceline::cli

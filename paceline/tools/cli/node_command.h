// `paceline node`: this host's part of a job that runs on several hosts, one command a host. The first host
// runs the coordinator and the evaluator, and writes the run folder; every host a server and its workers.
#pragma once

#include <functional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/placement.h"
#include "paceline/tools/cli/host_place.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

struct NodeOptions {
  TrainOptions train;
  PlaceOptions place{};
  bool anew = false;  // begin a new run, even if one of this job was cut short
  // For the first of several tasks on this host: tells the others the path of this host's job file, once their workers
  // may come. Only the first of this host's workers is started here then.
  std::function<void(const std::string& job_file)> tell_tasks{};
};

// The exit status, once this host's part is over.
absl::StatusOr<int> node_command(const NodeOptions& options, const launch::Environment& environment);

}  // namespace paceline::cli

// `paceline run` in tasks on several hosts: the hosts of one job, as with `paceline node`. The first task of each host
// leads it. All hosts see `runs_dir`, where the first one makes the job's certificates, unless the command line names
// some.
#pragma once

#include <functional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/placement.h"
#include "paceline/processes/launch/tasks.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

// Trains this host's part of the job. `tell_tasks`: that of NodeOptions. Returns the exit status. Errors:
// InvalidArgument if no variable says the address of the first host; the errors of wait_for() if the hosts share no
// folder, and of node_command().
absl::StatusOr<int> train_on_hosts(const launch::Tasks& tasks, const launch::Environment& environment,
                                   TrainOptions train,
                                   std::function<void(const std::string& job_file)> tell_tasks = {});

}  // namespace paceline::cli

// `paceline run` in the tasks of a launcher that starts one command many times, like srun and mpirun: each task is a
// worker of one job. The first task of each host leads that host, and tells the others by a file in `runs_dir`
// (launch/task_meeting.h). With one task a host, each is a host of the job, which may have any number of devices.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/processes/launch/placement.h"
#include "paceline/processes/launch/tasks.h"
#include "paceline/tools/cli/run_command.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

// Whether these tasks can be one job. Errors: InvalidArgument if nothing says how many there are on each host, or if the
// command line has devices and each task is one.
absl::Status check_tasks(const launch::Tasks& tasks, const RunOptions& options);

// The program must not take itself for one of several, for example in a library that knows the launcher.
void forget_tasks(const launch::Tasks& tasks);

// Trains this task's part of the job, which has a device for each task, on the task's host; or, with one task a host, any
// devices. Returns the exit status. Errors: those of train_command() and train_on_hosts(); InvalidArgument if the first
// task of this host was started with other words; Unavailable if it was lost.
absl::StatusOr<int> train_in_tasks(const launch::Tasks& tasks, const launch::Environment& environment,
                                   TrainOptions train);

}  // namespace paceline::cli

// `paceline run` in the tasks of a launcher that starts one command many times, like srun and mpirun: each task is a
// worker of one job. The first one leads it, and tells the others by a file in `runs_dir` (launch/task_meeting.h).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/cli/run_command.h"
#include "paceline/cli/train_command.h"
#include "paceline/launch/tasks.h"

namespace paceline::cli {

// Whether these tasks can be one job. Errors: InvalidArgument if they are on several hosts and some host has several,
// or if the command line has devices and each task is one.
absl::Status check_tasks(const launch::Tasks& tasks, const RunOptions& options);

// The program must not take itself for one of several, for example in a library that knows the launcher.
void forget_tasks(const launch::Tasks& tasks);

// This task's part of the job, which has a device for each task. Returns the exit status.
absl::StatusOr<int> train_in_tasks(const launch::Tasks& tasks, TrainOptions train);

}  // namespace paceline::cli

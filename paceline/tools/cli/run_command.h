// `paceline run`: trains a program of the user's, without a job file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/display.h"
#include "paceline/processes/launch/placement.h"
#include "paceline/processes/launch/tasks.h"

namespace paceline::cli {

struct RunOptions {
  std::string program;
  std::string module;             // for `python -m`, instead of a program
  std::vector<std::string> args;  // arguments of the program
  int devices = 1;
  bool says_devices = false;  // the command line has them
  std::string policy = "bsp";
  std::string python;  // empty: the job's default
  int threads = 0;     // the threads of each worker; 0: the job's default
  std::vector<std::string> sets;
  launch::Shown shown = launch::Shown::kLine;
  bool in_virtual_time = false;
};

// The number of threads that the person has set for PyTorch (OMP_NUM_THREADS); 0 if there is none. A list is for nested
// regions, and its first number counts.
int asked_threads(const launch::Environment& environment);

// The job file of this program. `tasks`: those that train it, if a scheduler started them.
std::string job_of(const RunOptions& options, const std::optional<launch::Tasks>& tasks = std::nullopt);

// Like train_command. Tasks that one launcher has started (launch/tasks.h) become workers of one job.
absl::StatusOr<int> run_command(RunOptions options, const launch::Environment& environment);

}  // namespace paceline::cli

// `paceline run`: trains a program of the user's, without a job file.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/launch/display.h"

namespace paceline::cli {

struct RunOptions {
  std::string program;
  std::string module;             // for `python -m`, instead of a program
  std::vector<std::string> args;  // arguments of the program
  int devices = 1;
  std::string policy = "bsp";
  std::string python;  // empty: the job's default
  std::vector<std::string> sets;
  launch::Shown shown = launch::Shown::kLine;
  bool in_virtual_time = false;
};

// Like train_command.
absl::StatusOr<int> run_command(const RunOptions& options);

}  // namespace paceline::cli

// The tasks of a launcher that starts one command many times: srun, mpirun, torchrun and the like. All tasks are
// to be one job and not a job each. Pure: the environment is an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/launch/placement.h"

namespace paceline::launch {

struct Tasks {
  std::string starter{};      // for people: "srun"
  std::int64_t rank = 0;      // this task's number, from 0
  std::int64_t count = 1;     // number of tasks
  std::int64_t here = 0;      // number of tasks on this host; 0: nothing says it
  std::string count_is_in{};  // the variable that says the number of tasks
  std::string name{};         // the same for all tasks of one start, as part of a file's name
  // variables by which the program would take itself for one of several
  std::vector<std::string> variables{};
};

// Nothing if this command was started once. Errors: InvalidArgument if a variable makes no sense, or says a rank
// and none says how many there are.
absl::StatusOr<std::optional<Tasks>> find_tasks(const Environment& environment);

}  // namespace paceline::launch

// The tasks of a launcher that starts one command many times: srun, mpirun, torchrun and the like. All tasks are
// to be one job and not a job each. Pure: the environment is an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/processes/launch/placement.h"

namespace paceline::launch {

struct Tasks {
  std::string starter{};      // for people: "srun"
  std::int64_t rank = 0;      // this task's number, from 0
  std::int64_t count = 1;     // number of tasks
  std::string count_is_in{};  // the variable that says the number of tasks
  // the number of tasks on each host; empty: nothing says it, and the next two are not known
  std::vector<std::int64_t> on_host{};
  std::int64_t host = 0;   // this host's number
  std::int64_t place = 0;  // this task's number on its host, from 0
  std::string name{};      // the same for all tasks of one start, as part of a file's name
  // variables by which the program would take itself for one of several
  std::vector<std::string> variables{};

  bool on_one_host() const { return on_host.size() == 1; }
  bool one_a_host() const { return static_cast<std::int64_t>(on_host.size()) == count; }
  std::int64_t here() const { return on_host[static_cast<std::size_t>(host)]; }
  // This task's number in the order of the hosts.
  std::int64_t place_in_job() const;
};

// The variable in which a person says the number of tasks on each host: "4,3" or, as Slurm writes it, "4(x2),3".
inline constexpr char kTasksPerHost[] = "PACELINE_TASKS_PER_HOST";

// Nothing if this command was started once. Errors: InvalidArgument if a variable makes no sense or disagrees with
// another one, or if one says a rank and none says how many there are.
absl::StatusOr<std::optional<Tasks>> find_tasks(const Environment& environment);

}  // namespace paceline::launch

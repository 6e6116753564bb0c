#include "paceline/launch/tasks.h"

#include <algorithm>
#include <cctype>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::launch {

namespace {

constexpr std::int64_t kMostTasks = 1 << 20;

struct TaskLauncher {
  std::string starter;
  std::string rank, count;
  std::string here;                // the number of tasks on this host
  std::string hosts;               // else the number of hosts
  std::vector<std::string> names;  // variables that name this start
  std::vector<std::string> more;   // further variables by which libraries know one of several tasks
};

// The innermost first: mpirun may run under Slurm, and torchrun under either. A script of sbatch runs once, and has
// no variable of a step.
const std::vector<TaskLauncher>& task_launchers() {
  static const std::vector<TaskLauncher> kAll = {
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_WORLD_SIZE",
       "",
       {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
       {"LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE"}},
      {"mpirun",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       "",
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "PMIX_RANK"}},
      {"mpirun",
       "MV2_COMM_WORLD_RANK",
       "MV2_COMM_WORLD_SIZE",
       "MV2_COMM_WORLD_LOCAL_SIZE",
       "",
       {"SLURM_JOB_ID", "PBS_JOBID"},
       {"MV2_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE"}},
      {"jsrun",
       "JSM_NAMESPACE_RANK",
       "JSM_NAMESPACE_SIZE",
       "JSM_NAMESPACE_LOCAL_SIZE",
       "",
       {"LSB_JOBID"},
       {"JSM_NAMESPACE_LOCAL_RANK", "PMIX_RANK"}},
      {"flux run",
       "FLUX_TASK_RANK",
       "FLUX_JOB_SIZE",
       "",
       "FLUX_JOB_NNODES",
       {"FLUX_JOB_ID"},
       {"FLUX_TASK_LOCAL_ID", "PMI_RANK", "PMI_SIZE"}},
      {"srun",
       "SLURM_PROCID",
       "SLURM_STEP_NUM_TASKS",
       "",
       "SLURM_STEP_NUM_NODES",
       {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
       {"SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NPROCS", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"}},
      {"mpirun",
       "PMI_RANK",
       "PMI_SIZE",
       "MPI_LOCALNRANKS",
       "",
       {"PBS_JOBID", "SLURM_JOB_ID", "LSB_JOBID"},
       {"MPI_LOCALRANKID"}},
  };
  return kAll;
}

std::string text_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return name.empty() || found == environment.end() ? "" : found->second;
}

absl::StatusOr<std::int64_t> whole(const Environment& environment, const std::string& name,
                                   std::int64_t least) {
  const std::string text = text_in(environment, name);
  std::int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= kMostTasks) return number;
  return absl::InvalidArgumentError(fmt::format(
      "{}='{}' in the environment: a number from {} to {} is needed", name, text, least, kMostTasks));
}

std::string file_name(std::string text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
  };
  std::replace_if(
      text.begin(), text.end(), [&](char c) { return !plain(c); }, '_');
  return text;
}

std::string name_of(const Environment& environment, const TaskLauncher& launcher) {
  std::string name = launcher.starter;
  for (const std::string& variable : launcher.names) {
    const std::string text = text_in(environment, variable);
    if (!text.empty()) name += "-" + text;
  }
  return file_name(name);
}

// 0 if the launcher does not say it, or hosts have different numbers.
absl::StatusOr<std::int64_t> tasks_here(const Environment& environment, const TaskLauncher& launcher,
                                        std::int64_t count) {
  if (!text_in(environment, launcher.here).empty()) return whole(environment, launcher.here, 1);
  if (text_in(environment, launcher.hosts).empty()) return 0;
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t hosts, whole(environment, launcher.hosts, 1));
  return hosts == 1 ? count : hosts == count ? 1 : 0;
}

}  // namespace

absl::StatusOr<std::optional<Tasks>> find_tasks(const Environment& environment) {
  const auto& all = task_launchers();
  const auto launcher = std::find_if(all.begin(), all.end(), [&](const TaskLauncher& one) {
    return !text_in(environment, one.rank).empty() && !text_in(environment, one.count).empty();
  });
  if (launcher == all.end()) {
    const std::string rank = text_in(environment, "PMIX_RANK");
    if (rank.empty() || rank == "0") return std::nullopt;
    return absl::InvalidArgumentError(
        fmt::format("PMIX_RANK={} in the environment: this command was started several times, and nothing "
                    "says how often; start "
                    "it once: paceline run SCRIPT --devices N",
                    rank));
  }
  Tasks tasks{
      .starter = launcher->starter, .count_is_in = launcher->count, .name = name_of(environment, *launcher)};
  PACELINE_ASSIGN_OR_RETURN(tasks.count, whole(environment, launcher->count, 1));
  if (tasks.count == 1) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(tasks.rank, whole(environment, launcher->rank, 0));
  if (tasks.rank >= tasks.count)
    return absl::InvalidArgumentError(fmt::format("{}={} of {}={} in the environment: ranks begin at 0",
                                                  launcher->rank, tasks.rank, launcher->count, tasks.count));
  PACELINE_ASSIGN_OR_RETURN(tasks.here, tasks_here(environment, *launcher, tasks.count));
  tasks.variables = launcher->more;
  tasks.variables.push_back(launcher->rank);
  tasks.variables.push_back(launcher->count);
  return tasks;
}

}  // namespace paceline::launch

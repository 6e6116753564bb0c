#include "paceline/processes/launch/tasks.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <numeric>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/status_macros.h"

namespace paceline::launch {

namespace {

constexpr std::int64_t kMostTasks = 1 << 20;

struct TaskLauncher {
  std::string starter{};
  std::string rank{}, count{};
  std::string here{};                // the number of tasks on this host
  std::string place{};               // the number among these
  std::string hosts{}, host{};       // the number of hosts, and of this one
  std::vector<std::string> lists{};  // the number of tasks on each host, as Slurm writes it
  std::vector<std::string> names{};  // variables that name this start
  std::vector<std::string> more{};   // further variables by which libraries know one of several tasks
};

// The innermost first: mpirun may run under Slurm, and torchrun under either. A script of sbatch runs once, and has
// no variable of a step.
const std::vector<TaskLauncher>& task_launchers() {
  static const std::vector<TaskLauncher> kAll = {
      {.starter = "torchrun",
       .rank = "RANK",
       .count = "WORLD_SIZE",
       .here = "LOCAL_WORLD_SIZE",
       .place = "LOCAL_RANK",
       .hosts = "GROUP_WORLD_SIZE",
       .host = "GROUP_RANK",
       .names = {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
       .more = {"ROLE_RANK", "ROLE_WORLD_SIZE"}},
      {.starter = "mpirun",
       .rank = "OMPI_COMM_WORLD_RANK",
       .count = "OMPI_COMM_WORLD_SIZE",
       .here = "OMPI_COMM_WORLD_LOCAL_SIZE",
       .place = "OMPI_COMM_WORLD_LOCAL_RANK",
       .names = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
       .more = {"OMPI_COMM_WORLD_NODE_RANK", "PMIX_RANK"}},
      {.starter = "mpirun",
       .rank = "MV2_COMM_WORLD_RANK",
       .count = "MV2_COMM_WORLD_SIZE",
       .here = "MV2_COMM_WORLD_LOCAL_SIZE",
       .place = "MV2_COMM_WORLD_LOCAL_RANK",
       .names = {"SLURM_JOB_ID", "PBS_JOBID"},
       .more = {"PMI_RANK", "PMI_SIZE"}},
      {.starter = "jsrun",
       .rank = "JSM_NAMESPACE_RANK",
       .count = "JSM_NAMESPACE_SIZE",
       .here = "JSM_NAMESPACE_LOCAL_SIZE",
       .place = "JSM_NAMESPACE_LOCAL_RANK",
       .names = {"LSB_JOBID"},
       .more = {"PMIX_RANK"}},
      {.starter = "flux run",
       .rank = "FLUX_TASK_RANK",
       .count = "FLUX_JOB_SIZE",
       .place = "FLUX_TASK_LOCAL_ID",
       .hosts = "FLUX_JOB_NNODES",
       .names = {"FLUX_JOB_ID"},
       .more = {"PMI_RANK", "PMI_SIZE"}},
      {.starter = "srun",
       .rank = "SLURM_PROCID",
       .count = "SLURM_STEP_NUM_TASKS",
       .place = "SLURM_LOCALID",
       .hosts = "SLURM_STEP_NUM_NODES",
       .host = "SLURM_NODEID",
       .lists = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"},
       .names = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
       .more = {"SLURM_NTASKS", "SLURM_NPROCS", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"}},
      {.starter = "mpirun",
       .rank = "PMI_RANK",
       .count = "PMI_SIZE",
       .here = "MPI_LOCALNRANKS",
       .place = "MPI_LOCALRANKID",
       .names = {"PBS_JOBID", "SLURM_JOB_ID", "LSB_JOBID"}},
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

using Counts = std::vector<std::int64_t>;

std::int64_t sum(const Counts& counts, std::int64_t hosts) {
  return std::accumulate(counts.begin(), counts.begin() + hosts, std::int64_t{0});
}

std::int64_t sum(const Counts& counts) { return sum(counts, std::ssize(counts)); }

// "4(x2),3" are three hosts. Nothing if the text is no such list, or its tasks are more than `most`.
std::optional<Counts> counts_in(const std::string& text, std::int64_t most) {
  Counts counts;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    std::vector<absl::string_view> words = absl::StrSplit(part, absl::MaxSplits("(x", 1));
    std::int64_t tasks = 0, times = 1;
    if (words.size() == 2 && (!absl::ConsumeSuffix(&words[1], ")") || !absl::SimpleAtoi(words[1], &times)))
      return std::nullopt;
    if (!absl::SimpleAtoi(words[0], &tasks) || tasks < 1 || tasks > most || times < 1 || times > most)
      return std::nullopt;
    counts.insert(counts.end(), static_cast<std::size_t>(times), tasks);
    if (sum(counts) > most) return std::nullopt;
  }
  return counts;
}

// The number of tasks on each host that a person says.
absl::StatusOr<Counts> said_counts(const std::string& text, std::int64_t count) {
  const auto counts = counts_in(text, count);
  if (counts && sum(*counts) == count) return *counts;
  return absl::InvalidArgumentError(
      fmt::format("{}='{}' in the environment: write the number of tasks of each host, {} together, like 2,2",
                  kTasksPerHost, text, count));
}

// Empty if nothing says it.
absl::StatusOr<Counts> counts_of_hosts(const Environment& environment, const TaskLauncher& launcher,
                                       std::int64_t count) {
  if (const std::string said = text_in(environment, kTasksPerHost); !said.empty())
    return said_counts(said, count);
  std::int64_t here = 0, hosts = 0;
  if (!text_in(environment, launcher.here).empty()) {
    PACELINE_ASSIGN_OR_RETURN(here, whole(environment, launcher.here, 1));
  }
  if (!text_in(environment, launcher.hosts).empty()) {
    PACELINE_ASSIGN_OR_RETURN(hosts, whole(environment, launcher.hosts, 1));
  }
  if (here == count || hosts == 1) return Counts{count};
  for (const std::string& list : launcher.lists) {
    const auto counts = counts_in(text_in(environment, list), count);
    if (counts && sum(*counts) == count && (hosts == 0 || hosts == std::ssize(*counts))) return *counts;
  }
  if (hosts == count || (hosts == 0 && here == 1)) return Counts(static_cast<std::size_t>(count), 1);
  if (here * hosts == count) return Counts(static_cast<std::size_t>(hosts), here);
  return Counts();
}

// Fills in the task's place. Errors: another variable says another one.
absl::Status find_place(const Environment& environment, const TaskLauncher& launcher, Tasks& tasks) {
  const bool says_place = !text_in(environment, launcher.place).empty();
  if (tasks.on_one_host()) {
    tasks.place = tasks.rank;
    return absl::OkStatus();
  }
  const auto hosts = std::ssize(tasks.on_host);
  std::int64_t place = 0;
  if (says_place) {
    PACELINE_ASSIGN_OR_RETURN(place, whole(environment, launcher.place, 0));
  }
  if (says_place && !text_in(environment, launcher.host).empty()) {
    PACELINE_ASSIGN_OR_RETURN(tasks.host, whole(environment, launcher.host, 0));
    tasks.place = place;
  } else {  // the ranks go from host to host
    while (sum(tasks.on_host, tasks.host + 1) <= tasks.rank) ++tasks.host;
    tasks.place = tasks.rank - sum(tasks.on_host, tasks.host);
  }
  const bool good = tasks.host < hosts && tasks.place < tasks.here() && (!says_place || place == tasks.place);
  std::int64_t here = good ? tasks.here() : 0;
  if (good && !text_in(environment, launcher.here).empty()) {
    PACELINE_ASSIGN_OR_RETURN(here, whole(environment, launcher.here, 1));
  }
  if (good && here == tasks.here()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "task {} of {} is not where {} tasks on {} hosts ({} each) put it; set {} to the number of tasks of "
      "each "
      "host, and let their ranks go from host to host",
      tasks.rank, launcher.starter, tasks.count, hosts, fmt::join(tasks.on_host, ", "), kTasksPerHost));
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
  PACELINE_ASSIGN_OR_RETURN(tasks.on_host, counts_of_hosts(environment, *launcher, tasks.count));
  if (!tasks.on_host.empty()) PACELINE_RETURN_IF_ERROR(find_place(environment, *launcher, tasks));
  tasks.variables = launcher->more;
  for (const std::string& name : {launcher->rank, launcher->count, launcher->here, launcher->place,
                                  launcher->hosts, launcher->host, std::string(kTasksPerHost)})
    if (!name.empty()) tasks.variables.push_back(name);
  return tasks;
}

std::int64_t Tasks::place_in_job() const { return sum(on_host, host) + place; }

}  // namespace paceline::launch

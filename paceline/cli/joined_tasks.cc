#include "paceline/cli/joined_tasks.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/program.h"
#include "paceline/cli/waiting.h"
#include "paceline/config/job_config.h"
#include "paceline/launch/local_cluster.h"
#include "paceline/launch/print.h"
#include "paceline/launch/stop_signals.h"
#include "paceline/launch/task_meeting.h"
#include "paceline/launch/watch.h"
#include "paceline/runs/job_file.h"
#include "paceline/store/files.h"
#include "paceline/store/run_folder.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostAddressBytes = 4096;

std::string job_alone(const launch::Tasks& tasks) {
  return fmt::format("to train several jobs instead, start each with `env -u {} ...`", tasks.count_is_in);
}

// The words that are the same in all tasks, as a line.
std::string words_of_task(const std::string& job, const std::vector<std::string>& sets) {
  std::string all = job;
  for (const std::string& set : sets) all += '\n' + set;
  return fmt::format("{:016x}", std::hash<std::string>{}(all));
}

absl::StatusOr<int> lead_tasks(const launch::Tasks& tasks, const std::string& file, const std::string& words,
                               TrainOptions train) {
  PACELINE_ASSIGN_OR_RETURN(launch::TaskLead begun, launch::TaskLead::begin(file, words));
  const auto meeting = std::make_shared<launch::TaskLead>(std::move(begun));
  if (train.shown != launch::Shown::kNothing)
    launch::print(stderr, fmt::format("{} started {} tasks; they become the {} workers of one job\n",
                                      tasks.starter, tasks.count, tasks.count));
  train.processes = [meeting](const std::string& run, const config::JobConfig& job, bool resume) {
    launch::HostProcesses own = launch::all_processes(run, job, resume);
    own.workers.resize(1);
    if (!run.empty()) {
      if (const absl::Status said = meeting->say(run); !said.ok())
        launch::print(stderr, std::string(said.message()) + "\n");
    }
    return own;
  };
  return train_command(std::move(train));
}

absl::StatusOr<int> follow_task(const launch::Tasks& tasks, const std::string& file,
                                const std::string& words) {
  launch::catch_stop_signals();
  launch::TaskFollower follower(file, words);
  const std::string first = fmt::format("the first of the {} tasks of {}", tasks.count, tasks.starter);
  PACELINE_ASSIGN_OR_RETURN(const std::string run,
                            wait_for<std::string>(first, [&] { return follower.look(); }));
  const store::RunPaths paths{run};
  PACELINE_ASSIGN_OR_RETURN(const std::string text, runs::read_job_file(paths.job()));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(text, paths.job().string()));
  if (tasks.rank >= static_cast<std::int64_t>(job.devices.size()))
    return absl::InvalidArgumentError(
        fmt::format("the job has {} devices and {} started {} tasks; leave `device` out of --set",
                    job.devices.size(), tasks.starter, tasks.count));
  const std::string& name = job.devices[static_cast<std::size_t>(tasks.rank)].name;
  const auto look = [&]() -> absl::StatusOr<std::optional<std::string>> {
    const auto address = store::read_file(fs::path(run) / "coordinator", kMostAddressBytes);
    if (address.ok()) return address->substr(0, address->find('\n'));
    if (!follower.leads())
      return absl::UnavailableError("the first task ended before training began; it says why");
    return std::nullopt;
  };
  PACELINE_ASSIGN_OR_RETURN(const std::string address, wait_for<std::string>("the job's coordinator", look));
  launch::HostProcesses own = launch::all_processes(run, job, false);
  own.first = false;
  own.run = run;
  own.shards.clear();
  own.workers = {name};
  own.peers.coordinator = address;
  own.address_file = fmt::format("{}/coordinator-{}", run, name);
  launch::Display display(name, launch::Shown::kNothing);
  PACELINE_ASSIGN_OR_RETURN(launch::LocalCluster cluster, launch::LocalCluster::start(std::move(own), job));
  PACELINE_RETURN_IF_ERROR(launch::watch(cluster, display, "interrupted", job.on_signal));
  std::error_code ignored;
  fs::remove(fmt::format("{}/coordinator-{}", run, name), ignored);
  PACELINE_RETURN_IF_ERROR(cluster.after());
  if (launch::stop_signals() > 0 && cluster.stopped()) return launch::exit_of_stop();
  return cluster.interrupted() ? kExitOfOthersStop : 0;
}

}  // namespace

absl::Status check_tasks(const launch::Tasks& tasks, const RunOptions& options) {
  const std::string started = fmt::format("{} started this command {} times", tasks.starter, tasks.count);
  if (options.in_virtual_time)
    return absl::InvalidArgumentError(started + ", and virtual time is one process; start it once");
  const auto names_devices = [](const std::string& set) { return set.starts_with("device"); };
  const bool devices =
      options.says_devices || std::any_of(options.sets.begin(), options.sets.end(), names_devices);
  if (tasks.here == tasks.count && devices)
    return absl::InvalidArgumentError(fmt::format(
        "{}, and each task becomes a device of one job; leave --devices out, or start it once", started));
  if (tasks.here == tasks.count || tasks.here == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} on several hosts, and the tasks of one job are all on one host, or one a host; start one a "
      "host (srun --ntasks-per-node=1, mpirun --map-by ppr:1:node) with --devices N for all hosts "
      "together, or write a job file and start paceline node job.toml once on each host",
      started));
}

void forget_tasks(const launch::Tasks& tasks) {
  for (const std::string& variable : tasks.variables) ::unsetenv(variable.c_str());
}

absl::StatusOr<int> train_in_tasks(const launch::Tasks& tasks, TrainOptions train) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                            config::parse_job(train.text, "the command line", train.sets));
  PACELINE_ASSIGN_OR_RETURN(const std::string file,
                            store::absolute_path(fs::path(job.runs_dir) / (".tasks-" + tasks.name)));
  const std::string words = words_of_task(train.text, train.sets);
  auto ended =
      tasks.rank == 0 ? lead_tasks(tasks, file, words, std::move(train)) : follow_task(tasks, file, words);
  if (ended.ok()) return ended;
  if (tasks.rank > 0 && absl::IsCancelled(ended.status()) && launch::stop_signals() > 0)
    return launch::exit_of_stop();
  if (tasks.rank == 0 || !absl::IsInvalidArgument(ended.status())) return ended;
  return absl::InvalidArgumentError(fmt::format("task {} of {}: {}; {}", tasks.rank, tasks.starter,
                                                std::string(ended.status().message()), job_alone(tasks)));
}

}  // namespace paceline::cli

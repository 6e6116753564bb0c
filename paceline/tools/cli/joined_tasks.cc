#include "paceline/tools/cli/joined_tasks.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/local_cluster.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/launch/task_meeting.h"
#include "paceline/processes/launch/watch.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/tools/cli/joined_hosts.h"
#include "paceline/tools/cli/program.h"
#include "paceline/tools/cli/waiting.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

std::string job_alone(const launch::Tasks& tasks) {
  return fmt::format("to train several jobs instead, start each with `env -u {} ...`", tasks.count_is_in);
}

// The words that are the same in all tasks, as a line.
std::string words_of_task(const std::string& job, const std::vector<std::string>& sets) {
  std::string all = job;
  for (const std::string& set : sets) all += '\n' + set;
  return fmt::format("{:016x}", std::hash<std::string>{}(all));
}

using Meeting = std::shared_ptr<launch::TaskLead>;

void tell(const Meeting& meeting, const std::string& job_file) {
  if (const absl::Status said = meeting->say(job_file); !said.ok())
    launch::print(stderr, std::string(said.message()) + "\n");
}

absl::StatusOr<int> lead_tasks(const launch::Tasks& tasks, const Meeting& meeting, TrainOptions train) {
  if (train.shown != launch::Shown::kNothing)
    launch::print(stderr, fmt::format("{} started {} tasks; they become the {} workers of one job\n",
                                      tasks.starter, tasks.count, tasks.count));
  train.processes = [meeting](const std::string& run, const config::JobConfig& job, bool resume) {
    launch::HostProcesses own = launch::all_processes(run, job, resume);
    own.workers.resize(1);
    if (!run.empty()) tell(meeting, store::RunPaths{run}.job());
    return own;
  };
  return train_command(std::move(train));
}

std::string first_task(const launch::Tasks& tasks) {
  if (tasks.on_one_host()) return fmt::format("the first of the {} tasks of {}", tasks.count, tasks.starter);
  return fmt::format("the first of the {} tasks of {} on host {}", tasks.here(), tasks.starter, tasks.host);
}

absl::Status first_is_lost(const launch::Tasks& tasks) {
  const std::string lost = first_task(tasks) + " was lost";
  if (tasks.on_one_host())
    return absl::UnavailableError(lost + ", and the run with it; go on with paceline train --resume RUN");
  return absl::UnavailableError(
      fmt::format("{}, and with it this host; the others go on without it if they can, and `paceline node "
                  "--resume RUN` on each host goes on with all",
                  lost));
}

// Ends this task some time after its host's first task failed or was lost: nobody leads the host any more. If the first
// task ended well, this task has heard how the run ended, and its program may still work.
class LookAtFirst {
 public:
  LookAtFirst(const launch::Tasks& tasks, const launch::TaskFollower& follower)
      : tasks_(tasks), follower_(follower) {}

  absl::Status look(const launch::LocalCluster& cluster) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_ || cluster.ending()) return absl::OkStatus();
    next_ = now + kPause;
    switch (watch_.look(follower_, now)) {
      case launch::FirstTaskWatch::Fate::kWell:
        return absl::OkStatus();
      case launch::FirstTaskWatch::Fate::kFailed:
        return absl::UnavailableError(first_task(tasks_) + " ended with an error; it says why");
      case launch::FirstTaskWatch::Fate::kLost:
        return first_is_lost(tasks_);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr std::chrono::seconds kPause{1};
  const launch::Tasks& tasks_;
  const launch::TaskFollower& follower_;
  std::chrono::steady_clock::time_point next_{};
  launch::FirstTaskWatch watch_{std::chrono::steady_clock::now()};
};

absl::StatusOr<int> follow_task(const launch::Tasks& tasks, const std::string& file,
                                const std::string& words) {
  launch::catch_stop_signals();
  launch::TaskFollower follower(file, words);
  PACELINE_ASSIGN_OR_RETURN(const std::string job_file,
                            wait_for<std::string>(first_task(tasks), [&] { return follower.look(); }));
  PACELINE_ASSIGN_OR_RETURN(const std::string text, runs::read_job_file(job_file));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(text, job_file));
  const auto place = tasks.place_in_job();
  if (place >= std::ssize(job.devices))
    return absl::InvalidArgumentError(
        fmt::format("the job has {} devices and {} started {} tasks; leave `device` out of --set",
                    job.devices.size(), tasks.starter, tasks.count));
  const std::string folder = fs::path(job_file).parent_path();
  const std::string address_file = folder + "/coordinator";
  const auto look = [&]() -> absl::StatusOr<std::optional<std::string>> {
    if (auto address = launch::address_in(address_file)) return address;
    if (!follower.leads())
      return absl::UnavailableError("the first task ended before training began; it says why");
    return std::nullopt;
  };
  PACELINE_ASSIGN_OR_RETURN(const std::string address, wait_for<std::string>("the job's coordinator", look));
  const std::string& name = job.devices[static_cast<std::size_t>(place)].name;
  launch::HostProcesses own = launch::all_processes(folder, job, false);
  own.first = false;
  own.rank = static_cast<int>(tasks.host);
  own.run = folder;
  own.shards.clear();
  own.exchange.clear();
  own.workers = {name};
  own.job_file = job_file;
  own.peers.coordinator = address;
  own.address_file = address_file;
  launch::Display display(name, launch::Shown::kNothing);
  PACELINE_ASSIGN_OR_RETURN(launch::LocalCluster cluster, launch::LocalCluster::start(std::move(own), job));
  LookAtFirst first(tasks, follower);
  PACELINE_RETURN_IF_ERROR(
      launch::watch(cluster, display, "interrupted", job.on_signal, [&] { return first.look(cluster); }));
  PACELINE_RETURN_IF_ERROR(cluster.after());
  if (launch::stop_signals() > 0 && cluster.stopped_early()) return launch::exit_of_stop();
  return cluster.interrupted() ? kExitOfOthersStop : 0;
}

absl::StatusOr<int> lead_host(const launch::Tasks& tasks, const launch::Environment& environment,
                              const std::string& file, const std::string& words, TrainOptions train) {
  if (!tasks.on_one_host() && tasks.here() == 1) return train_on_hosts(tasks, environment, std::move(train));
  PACELINE_ASSIGN_OR_RETURN(launch::TaskLead begun, launch::TaskLead::begin(file, words));
  const auto meeting = std::make_shared<launch::TaskLead>(std::move(begun));
  const auto tell_tasks = [meeting](const std::string& job_file) { tell(meeting, job_file); };
  auto ended = tasks.on_one_host() ? lead_tasks(tasks, meeting, std::move(train))
                                   : train_on_hosts(tasks, environment, std::move(train), tell_tasks);
  // The error of a program after its job is no error of the run, and other programs may still work.
  const bool well = exit_reason_of(ended.status()) == ExitReason::kDone;
  if (const absl::Status said = meeting->leave(well); !said.ok())
    launch::print(stderr, std::string(said.message()) + "\n");
  return ended;
}

}  // namespace

absl::Status check_tasks(const launch::Tasks& tasks, const RunOptions& options) {
  const std::string started = fmt::format("{} started this command {} times", tasks.starter, tasks.count);
  if (options.in_virtual_time)
    return absl::InvalidArgumentError(started + ", and virtual time is one process; start it once");
  if (tasks.on_host.empty())
    return absl::InvalidArgumentError(fmt::format(
        "{} on several hosts, and does not say how many on each; set {}=2,2 (a number for each host) in the "
        "environment of all tasks, or start one a host (srun --ntasks-per-node=1, mpirun --map-by "
        "ppr:1:node) with "
        "--devices N for all hosts together",
        started, launch::kTasksPerHost));
  const auto names_devices = [](const std::string& set) { return set.starts_with("device"); };
  const bool devices =
      options.says_devices || std::any_of(options.sets.begin(), options.sets.end(), names_devices);
  const bool each_is_one = tasks.on_one_host() || !tasks.one_a_host();
  if (each_is_one && devices)
    return absl::InvalidArgumentError(fmt::format(
        "{}, and each task becomes a device of one job; leave --devices out, or start it once", started));
  return absl::OkStatus();
}

void forget_tasks(const launch::Tasks& tasks) {
  for (const std::string& variable : tasks.variables) ::unsetenv(variable.c_str());
}

absl::StatusOr<int> train_in_tasks(const launch::Tasks& tasks, const launch::Environment& environment,
                                   TrainOptions train) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                            config::parse_job(train.text, "the command line", train.sets));
  const std::string host = tasks.on_one_host() ? "" : fmt::format("-host{}", tasks.host);
  PACELINE_ASSIGN_OR_RETURN(const std::string file,
                            store::absolute_path(fs::path(job.runs_dir) / (".tasks-" + tasks.name + host)));
  const std::string words = words_of_task(train.text, train.sets);
  const bool leads = tasks.place == 0;
  auto ended =
      leads ? lead_host(tasks, environment, file, words, std::move(train)) : follow_task(tasks, file, words);
  if (ended.ok() || leads) return ended;
  if (absl::IsCancelled(ended.status()) && launch::stop_signals() > 0) return launch::exit_of_stop();
  if (!absl::IsInvalidArgument(ended.status())) return ended;
  return absl::InvalidArgumentError(fmt::format("task {} of {}: {}; {}", tasks.rank, tasks.starter,
                                                std::string(ended.status().message()), job_alone(tasks)));
}

}  // namespace paceline::cli

#include "paceline/tools/cli/run_command.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/program/said_before.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/tools/cli/joined_tasks.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

namespace {

// The program's own, as far as a job may be called so.
std::string job_name(const RunOptions& options) {
  std::string name =
      options.module.empty() ? std::filesystem::path(options.program).stem().string() : options.module;
  const auto plain = [](char c) {
    return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '-' || c == '_';
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !plain(c); }, '-');
  return name.empty() ? "program" : name;
}

// A device for each task, on the task's host.
toml::array devices_of_hosts(const launch::Tasks& tasks) {
  toml::array devices;
  for (std::int64_t host = 0; host < std::ssize(tasks.on_host); ++host)
    devices.push_back(toml::table{{"count", tasks.on_host[static_cast<std::size_t>(host)]}, {"host", host}});
  return devices;
}

}  // namespace

int asked_threads(const launch::Environment& environment) {
  constexpr int kMost = 1024;  // the limit of a job
  const auto asked = environment.find("OMP_NUM_THREADS");
  int threads = 0;
  if (asked == environment.end() ||
      !absl::SimpleAtoi(asked->second.substr(0, asked->second.find(',')), &threads))
    return 0;
  return threads <= kMost ? std::max(threads, 0) : 0;
}

std::string job_of(const RunOptions& options, const std::optional<launch::Tasks>& tasks) {
  toml::array args;
  for (const std::string& arg : options.args) args.push_back(arg);
  const bool is_module = !options.module.empty();
  toml::table program{{is_module ? "module" : "run", is_module ? options.module : options.program},
                      {"args", args}};
  if (!options.python.empty()) program.insert("python", options.python);
  const bool several = tasks && !tasks->on_one_host() && !tasks->one_a_host();
  toml::table job{
      {"name", job_name(options)},
      {"sync", toml::table{{"policy", options.policy}}},
      {"device", several ? devices_of_hosts(*tasks) : toml::array{toml::table{{"count", options.devices}}}},
      {"program", program}};
  if (options.threads > 0) job.insert("threads", options.threads);
  if (several)
    job.insert("cluster", toml::table{{"hosts", static_cast<std::int64_t>(tasks->on_host.size())}});
  std::ostringstream text;
  text << job << '\n';
  return text.str();
}

absl::StatusOr<int> run_command(RunOptions options, const launch::Environment& environment) {
  if (options.program.ends_with(".toml"))
    return absl::InvalidArgumentError(
        fmt::format("{0}: is a job file, not a program; write paceline train {0}", options.program));
  options.threads = asked_threads(environment);
  PACELINE_ASSIGN_OR_RETURN(const auto tasks, launch::find_tasks(environment));
  if (tasks) {
    PACELINE_RETURN_IF_ERROR(check_tasks(*tasks, options));
    forget_tasks(*tasks);
    if (!options.says_devices) options.devices = static_cast<int>(tasks->count);
  }
  TrainOptions train;
  train.text = job_of(options, tasks);
  train.sets = options.sets;
  train.shown = options.shown;
  train.in_virtual_time = options.in_virtual_time;
  train.said = program::take_said();
  if (tasks) return train_in_tasks(*tasks, environment, std::move(train));
  return train_command(std::move(train));
}

}  // namespace paceline::cli

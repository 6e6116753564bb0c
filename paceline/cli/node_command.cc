#include "paceline/cli/node_command.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/local_cluster.h"
#include "paceline/cli/own_address.h"
#include "paceline/cli/stop_signals.h"
#include "paceline/cli/watch.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

// As long as a coordinator is waited for.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kPause{250};

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

absl::StatusOr<Placement> placement_of(const NodeOptions& options, const Environment& environment) {
  Placement placement;
  if (!options.rank && !options.hosts) {
    PACELINE_ASSIGN_OR_RETURN(placement, find_placement(environment));
  }
  placement.hosts = options.hosts.value_or(placement.hosts);
  placement.rank = options.rank.value_or(placement.rank);
  if (placement.rank >= placement.hosts)
    return absl::InvalidArgumentError(
        fmt::format("--rank {} of --hosts {}: ranks begin at 0", placement.rank, placement.hosts));
  if (options.coordinator.empty()) return placement;
  placement.first_host = host_of(options.coordinator);
  const bool good =
      options.coordinator.size() > placement.first_host.size() &&
      absl::SimpleAtoi(options.coordinator.substr(placement.first_host.size() + 1), &placement.port);
  if (!good)
    return absl::InvalidArgumentError(
        fmt::format("--coordinator '{}': write HOST:PORT", options.coordinator));
  return placement;
}

// As the hosts are what was started, a job need not say how many there are.
absl::StatusOr<config::JobConfig> job_of(TrainOptions& options, const Placement& placement) {
  PACELINE_ASSIGN_OR_RETURN(const JobText job, job_text(options));
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig as_written,
                            config::parse_job(job.text, job.file, options.sets));
  if (as_written.hosts == placement.hosts) return as_written;
  if (as_written.hosts > 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: cluster.hosts: the job has {} hosts, and `paceline node` runs on {}: write hosts = "
                    "{}, or leave it "
                    "out",
                    job.file, as_written.hosts, placement.hosts, placement.hosts));
  }
  options.sets.push_back(fmt::format("cluster.hosts={}", placement.hosts));
  return config::parse_job(job.text, job.file, options.sets);
}

absl::Status check(const config::JobConfig& job, const Placement& placement) {
  if (placement.hosts == 1) return absl::OkStatus();
  if (job.reach.token_file.empty()) {
    return absl::InvalidArgumentError(
        "network.certs: hosts have to know each other: write [network] certs = \"DIR\" (`paceline certs` "
        "makes them), or security = \"none\" and token_file = \"FILE\"");
  }
  const std::string first = placement.first_host + ":0";
  if (!config::is_loopback(job.reach.listen) || config::is_loopback(first)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("network.listen: '{}' cannot be reached from other hosts; write listen = \"0.0.0.0:{}\"",
                  job.reach.listen, placement.port));
}

std::string folder_of_host(const config::JobConfig& job, std::int64_t rank) {
  return fs::absolute(fs::path(job.runs_dir) / fmt::format("{}-host{}-{}", job.name, rank, getpid()))
      .string();
}

// The first host's name may not be known yet where that has not started.
absl::StatusOr<std::string> own_address(const NodeOptions& options, const Placement& placement) {
  if (!options.address.empty() || placement.hosts == 1) return options.address;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto own = own_address_towards(placement.first_host);
    const bool may_come = absl::IsUnavailable(own.status()) && placement.rank > 0;
    if (!may_come || std::chrono::steady_clock::now() > deadline) return own;
    std::this_thread::sleep_for(kPause);
  }
}

Household household_of(const config::JobConfig& job, const Placement& placement, const std::string& address) {
  Household host;
  host.first = placement.rank == 0;
  host.listen = fmt::format("{}:{}", host_of(job.reach.listen), placement.port);
  host.peers = {.coordinator = host.first ? "" : fmt::format("{}:{}", placement.first_host, placement.port),
                .certs = job.reach.certs,
                .token_file = job.reach.token_file};
  host.shards = {placement.rank};
  host.exchange = address;
  host.fabric = job.fabric;
  host.workers = workers_of_host(job, placement.rank);
  return host;
}

absl::Status run_other_host(Household host, const config::JobConfig& job, const Placement& placement) {
  host.folder = folder_of_host(job, placement.rank);
  std::error_code error;
  fs::create_directories(fs::path(host.folder) / "logs", error);
  if (error) return absl::PermissionDeniedError(fmt::format("{}: {}", host.folder, error.message()));
  const int signals_before = stop_signals();
  Display display(fmt::format("host {}", placement.rank), Shown::kLine);
  PACELINE_ASSIGN_OR_RETURN(LocalCluster cluster, LocalCluster::start(std::move(host), job));
  return watch(cluster, display, signals_before, fmt::format("host {} was interrupted", placement.rank));
}

}  // namespace

absl::StatusOr<int> node_command(const NodeOptions& options, const Environment& environment) {
  PACELINE_ASSIGN_OR_RETURN(const Placement placement, placement_of(options, environment));
  TrainOptions train = options.train;
  train.command = "paceline node";
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, job_of(train, placement));
  PACELINE_RETURN_IF_ERROR(check(job, placement));
  PACELINE_ASSIGN_OR_RETURN(const std::string address, own_address(options, placement));
  if (placement.rank == 0) {
    train.household = [placement, address](const std::string& run, const config::JobConfig& planned,
                                           bool resume) {
      if (placement.hosts == 1) return whole_household(run, planned, resume);
      Household host = household_of(planned, placement, address);
      host.folder = run;
      host.resume = resume;
      return host;
    };
    return train_command(train);
  }
  catch_stop_signals();
  PACELINE_RETURN_IF_ERROR(run_other_host(household_of(job, placement, address), job, placement));
  return stop_signals() > 0 ? exit_of_stop() : 0;
}

}  // namespace paceline::cli

#include "paceline/tools/cli/host_place.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/host_port.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/hosts.h"
#include "paceline/processes/launch/own_address.h"
#include "paceline/processes/launch/print.h"
#include "paceline/transport/links/socket_address.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::milliseconds kPause{250};
constexpr std::chrono::seconds kQuiet{5};

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool is_everywhere(const std::string& host) { return host == "0.0.0.0" || host == "[::]"; }

}  // namespace

absl::StatusOr<config::JobConfig> job_of_hosts(TrainOptions& options, const launch::Placement& placement) {
  if (placement.hosts > config::kMostHosts) {
    return absl::InvalidArgumentError(
        fmt::format("a job has at most {} hosts, and `{}` was started for {}; start it on fewer",
                    config::kMostHosts, options.command, placement.hosts));
  }
  PACELINE_ASSIGN_OR_RETURN(const JobText job, job_text(options));
  // Whether there are hosts enough for its replicas is seen once they are known.
  std::vector<std::string> sets = options.sets;
  sets.emplace_back("cluster.copies=1");
  const absl::StatusOr<config::JobConfig> as_written = config::parse_job(job.text, job.file, sets);
  if (as_written.ok() && as_written->hosts == placement.hosts)
    return config::parse_job(job.text, job.file, options.sets);
  if (as_written.ok() && as_written->hosts > 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: cluster.hosts: the job has {} hosts, and `{}` runs on {}: write hosts = {}, or "
                    "leave it out",
                    job.file, as_written->hosts, options.command, placement.hosts, placement.hosts));
  }
  // Without the number, a [[device]] that names its host is an error.
  options.sets.push_back(fmt::format("cluster.hosts={}", placement.hosts));
  return config::parse_job(job.text, job.file, options.sets);
}

absl::Status check_reach(const config::JobConfig& job, const launch::Placement& placement) {
  if (placement.hosts == 1) return absl::OkStatus();
  if (job.reach.token_file.empty()) {
    return absl::InvalidArgumentError(
        "network.certs: hosts have to know each other: write [network] certs = \"DIR\" (`paceline certs` "
        "makes them), or security = \"none\" and token_file = \"FILE\"");
  }
  const std::string first = host_port(placement.first_host, "0");
  if (config::is_loopback(first)) return absl::OkStatus();
  const std::string named = host_of(job.reach.listen);
  // Debian gives a host's own name such an address.
  const auto leads_to_loopback = [&] {
    return placement.rank == 0 && !is_everywhere(named) &&
           absl::IsInvalidArgument(launch::own_address_towards(named).status());
  };
  if (!config::is_loopback(job.reach.listen) && !leads_to_loopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("network.listen: '{}' cannot be reached from other hosts; write listen = \"0.0.0.0:{}\"",
                  job.reach.listen, launch::port_of_coordinator(placement, job)));
}

absl::Status check_address(const PlaceOptions& options) {
  if (options.address.empty()) return absl::OkStatus();
  const auto address = links::parse_host(options.address, 0);
  if (!address.ok())
    return absl::InvalidArgumentError(
        fmt::format("--address '{}': is no address; write one in numbers, like 10.0.0.2", options.address));
  if (!absl::IsNotFound(links::interface_of(*address).status())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--address {}: no network interface of this host has it; `ip address` lists those it has",
                  options.address));
}

absl::StatusOr<std::string> own_address(const PlaceOptions& options, const launch::Placement& placement,
                                        std::chrono::seconds patience) {
  if (!options.address.empty() || placement.hosts == 1) return options.address;
  const auto began = std::chrono::steady_clock::now();
  for (bool told = false;;) {
    auto own = launch::own_address_towards(placement.first_host);
    // Host 0's own name too: Kubernetes makes it after it has started the pod.
    const bool may_come = absl::IsUnavailable(own.status());
    const auto waited = std::chrono::steady_clock::now() - began;
    if (!may_come || waited > patience) return own;
    if (waited > kQuiet && !std::exchange(told, true))
      launch::print(stderr, fmt::format("still trying: {}\n", std::string(own.status().message())));
    std::this_thread::sleep_for(kPause);
  }
}

std::string listen_address(const config::JobConfig& job, const launch::Placement& placement,
                           const std::string& address) {
  const std::string named = host_of(job.reach.listen);
  const std::string port = fmt::to_string(launch::port_of_coordinator(placement, job));
  // The others come to this host by an address of that family, and 0.0.0.0 has none of IPv6.
  if (named == "0.0.0.0" && address.find(':') != std::string::npos) return host_port("[::]", port);
  if (address.empty() || placement.rank == 0) return host_port(named, port);
  // The others come to the address that this host tells them, should it lead.
  return host_port(is_everywhere(named) ? named : address, port);
}

std::string first_address(const config::JobConfig& job, const launch::Placement& placement) {
  return host_port(placement.first_host, fmt::to_string(launch::port_of_coordinator(placement, job)));
}

}  // namespace paceline::cli

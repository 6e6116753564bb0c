#include "paceline/processes/launch/placement.h"

#include <algorithm>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::launch {

namespace {

constexpr std::int64_t kMostNodes = 4096;  // the most that a launcher may report; a job may have fewer
constexpr std::int64_t kMostPort = 65535;

std::string text_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

absl::StatusOr<std::int64_t> number_of(const Environment& environment, const std::string& name,
                                       std::int64_t least, std::int64_t most) {
  const std::string text = text_of(environment, name);
  std::int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= most) return number;
  return absl::InvalidArgumentError(
      fmt::format("{}='{}' in the environment: a number from {} to {} is needed", name, text, least, most));
}

// Empty if none of them is set.
std::string first_said(const Environment& environment, const std::vector<std::string>& names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return !text_of(environment, name).empty();
  });
  return found == names.end() ? "" : *found;
}

// The program that started this process, and the variables in which it gives rank and number. No names: none.
struct Launcher {
  std::string rank{};
  std::string hosts{};
  std::string first_host{};
  bool several_a_host = false;
  std::string one_a_host{};  // the advice how to start one process a host
};

Launcher torchrun(const Environment& environment) {
  const std::string here = text_of(environment, "LOCAL_WORLD_SIZE");
  return {"RANK", "WORLD_SIZE", "", !here.empty() && here != "1", "torchrun --nproc_per_node=1"};
}

Launcher open_mpi(const Environment& environment) {
  const std::string here = text_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  return {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "", !here.empty() && here != "1",
          "mpirun --map-by ppr:1:node"};
}

// A step may have fewer nodes and tasks than its job, and ranks count within the step.
Launcher slurm(const Environment& environment) {
  const std::string nodes = first_said(environment, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  const std::string tasks = first_said(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const std::string list = first_said(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  std::int64_t on = 0;
  std::int64_t all = 0;
  const bool several = absl::SimpleAtoi(text_of(environment, nodes), &on) &&
                       absl::SimpleAtoi(text_of(environment, tasks), &all) && all > on;
  return {"SLURM_PROCID", tasks.empty() ? "SLURM_NNODES" : tasks,
          first_of_nodelist(text_of(environment, list)), several, "srun --ntasks-per-node=1"};
}

// The innermost launcher: mpirun may run under Slurm, and torchrun under either.
Launcher launcher_of(const Environment& environment) {
  if (environment.contains("RANK")) return torchrun(environment);
  if (environment.contains("OMPI_COMM_WORLD_RANK")) return open_mpi(environment);
  if (environment.contains("SLURM_PROCID")) return slurm(environment);
  return {};
}

absl::Status check_one_a_host(const Launcher& launcher) {
  if (!launcher.several_a_host) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "several processes were started on this host; start one a host ({}): `paceline node` starts "
      "the others",
      launcher.one_a_host));
}

// The setting as the user wrote it.
std::string words_of(const char* option, const std::string& variable, std::int64_t number,
                     bool on_command_line) {
  return on_command_line ? fmt::format("{} {}", option, number) : fmt::format("{}='{}'", variable, number);
}

absl::Status check_rank(const Placement& placement, const SaidPlacement& said, const Launcher& launcher) {
  const bool nobody = launcher.rank.empty();
  if (nobody && !said.rank && placement.hosts > 1)
    return absl::InvalidArgumentError(fmt::format("--hosts {}: write --rank too, from 0", placement.hosts));
  if (placement.rank < placement.hosts) return absl::OkStatus();
  const std::string rank = words_of("--rank", launcher.rank, placement.rank, said.rank.has_value());
  if (nobody && !said.hosts) return absl::InvalidArgumentError(rank + ": write --hosts too");
  return absl::InvalidArgumentError(
      fmt::format("{} of {}: ranks begin at 0", rank,
                  words_of("--hosts", launcher.hosts, placement.hosts, said.hosts.has_value())));
}

absl::Status read_counts(const Environment& environment, const SaidPlacement& said, const Launcher& launcher,
                         Placement& placement) {
  if (!said.rank || !said.hosts) PACELINE_RETURN_IF_ERROR(check_one_a_host(launcher));
  if (!said.hosts && !launcher.hosts.empty()) {
    PACELINE_ASSIGN_OR_RETURN(placement.hosts, number_of(environment, launcher.hosts, 1, kMostNodes));
  }
  if (!said.rank && !launcher.rank.empty()) {
    PACELINE_ASSIGN_OR_RETURN(placement.rank, number_of(environment, launcher.rank, 0, kMostNodes - 1));
  }
  placement.hosts = said.hosts.value_or(placement.hosts);
  placement.rank = said.rank.value_or(placement.rank);
  return check_rank(placement, said, launcher);
}

absl::Status read_coordinator(const std::string& text, Placement& placement) {
  const std::size_t colon = text.rfind(':');
  const bool good = colon != std::string::npos && colon > 0 &&
                    absl::SimpleAtoi(text.substr(colon + 1), &placement.port) && placement.port >= 1 &&
                    placement.port <= kMostPort;
  if (!good) {
    return absl::InvalidArgumentError(
        fmt::format("--coordinator '{}': write HOST:PORT, with a port from 1 to {}", text, kMostPort));
  }
  placement.first_host = text.substr(0, colon);
  return absl::OkStatus();
}

// torchrun's agent on the first host may listen on MASTER_PORT itself.
bool port_is_taken(const Environment& environment) {
  return text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
}

absl::Status read_first_host(const Environment& environment, const Launcher& launcher, Placement& placement) {
  const std::string address = text_of(environment, "MASTER_ADDR");
  placement.first_host = address.empty() ? launcher.first_host : address;
  if (environment.contains("MASTER_PORT") && !port_is_taken(environment)) {
    PACELINE_ASSIGN_OR_RETURN(placement.port, number_of(environment, "MASTER_PORT", 1, kMostPort));
  }
  if (placement.first_host.empty() && placement.hosts > 1) {
    return absl::InvalidArgumentError(
        "nothing says where the first host is: write --coordinator HOST:PORT, or set MASTER_ADDR in the "
        "environment, on all hosts");
  }
  if (placement.first_host.empty()) placement.first_host = Placement{}.first_host;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placement> find_placement(const Environment& environment, const SaidPlacement& said) {
  Placement placement;
  const Launcher launcher = launcher_of(environment);
  PACELINE_RETURN_IF_ERROR(read_counts(environment, said, launcher, placement));
  PACELINE_RETURN_IF_ERROR(said.coordinator.empty() ? read_first_host(environment, launcher, placement)
                                                    : read_coordinator(said.coordinator, placement));
  // An IPv6 address needs brackets before a port.
  std::string& first = placement.first_host;
  if (absl::StrContains(first, ':') && !absl::StartsWith(first, "[")) first = fmt::format("[{}]", first);
  return placement;
}

bool says_place(const Environment& environment, const SaidPlacement& said) {
  return said.rank || said.hosts || !launcher_of(environment).rank.empty();
}

std::int64_t port_of_coordinator(const Placement& placement, const config::JobConfig& job) {
  if (placement.port != 0) return placement.port;
  const std::string& listen = job.reach.listen;
  std::int64_t port = 0;
  const bool said = absl::SimpleAtoi(listen.substr(listen.rfind(':') + 1), &port) && port != 0;
  return said ? port : kUsualPort;
}

std::string first_of_nodelist(const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const std::size_t close = list.find(']', at);
    if (close == std::string::npos) return "";
    host += list.substr(at + 1, list.find_first_of(",-]", at + 1) - at - 1);
    at = close;
  }
  return host;
}

std::vector<std::string> workers_of_host(const config::JobConfig& job, std::int64_t host) {
  std::vector<std::string> names;
  for (const config::DeviceConfig& device : job.devices) {
    if (device.host == host) names.push_back(device.name);
  }
  return names;
}

}  // namespace paceline::launch

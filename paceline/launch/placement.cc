#include "paceline/launch/placement.h"

#include <optional>

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::launch {

namespace {

constexpr std::int64_t kMostHosts = 4096;
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

absl::Status read(const Environment& environment, const std::string& rank, const std::string& hosts,
                  Placement& placement) {
  PACELINE_ASSIGN_OR_RETURN(placement.hosts, number_of(environment, hosts, 1, kMostHosts));
  PACELINE_ASSIGN_OR_RETURN(placement.rank, number_of(environment, rank, 0, placement.hosts - 1));
  return absl::OkStatus();
}

absl::Status one_a_host(const Environment& environment) {
  if (!environment.contains("LOCAL_WORLD_SIZE") || text_of(environment, "LOCAL_WORLD_SIZE") == "1")
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "several processes were started on this host; start one a host (torchrun --nproc-per-node=1): "
      "`paceline "
      "node` starts the others");
}

absl::Status read_launcher(const Environment& environment, Placement& placement) {
  if (environment.contains("RANK")) {
    PACELINE_RETURN_IF_ERROR(one_a_host(environment));
    return read(environment, "RANK", "WORLD_SIZE", placement);
  }
  if (environment.contains("OMPI_COMM_WORLD_RANK"))
    return read(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", placement);
  if (!environment.contains("SLURM_PROCID")) return absl::OkStatus();
  const bool tasks = environment.contains("SLURM_NTASKS");
  PACELINE_RETURN_IF_ERROR(
      read(environment, "SLURM_PROCID", tasks ? "SLURM_NTASKS" : "SLURM_NNODES", placement));
  placement.first_host = first_of_nodelist(text_of(environment, "SLURM_JOB_NODELIST"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placement> find_placement(const Environment& environment) {
  Placement placement;
  placement.first_host.clear();
  PACELINE_RETURN_IF_ERROR(read_launcher(environment, placement));
  if (const std::string said = text_of(environment, "MASTER_ADDR"); !said.empty())
    placement.first_host = said;
  if (environment.contains("MASTER_PORT")) {
    PACELINE_ASSIGN_OR_RETURN(placement.port, number_of(environment, "MASTER_PORT", 1, kMostPort));
  }
  if (placement.first_host.empty() && placement.hosts > 1) {
    return absl::InvalidArgumentError(
        "nothing says where the first host is: set MASTER_ADDR in the environment of all of them");
  }
  if (placement.first_host.empty()) placement.first_host = Placement{}.first_host;
  return placement;
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
  for (const config::ReplicaConfig& device : job.replicas) {
    if (device.host == host) names.push_back(device.name);
  }
  return names;
}

}  // namespace paceline::launch

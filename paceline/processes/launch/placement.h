// The number of this host among several, and the address of the first one. The command line says it; for each
// missing option, environment variables of the launchers for many hosts say it: torchrun and similar ones
// (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) and Slurm (SLURM_PROCID,
// SLURM_NTASKS, SLURM_JOB_NODELIST, or those of its step), in this order. MASTER_ADDR and MASTER_PORT count
// with each of them. Pure: the environment is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"

namespace paceline::launch {

using Environment = std::map<std::string, std::string>;

// The options on the command line.
struct SaidPlacement {
  std::optional<std::int64_t> rank{};
  std::optional<std::int64_t> hosts{};
  std::string coordinator{};  // HOST:PORT of rank 0
};

struct Placement {
  std::int64_t rank = 0;
  std::int64_t hosts = 1;
  std::string first_host = "127.0.0.1";  // the address of rank 0
  std::int64_t port = 0;                 // the port of its coordinator; 0: the job's
  friend bool operator==(const Placement&, const Placement&) = default;
};

// One host alone, if neither has anything. Errors: a value is missing or makes no sense; several processes on
// one host, although one starts them all.
absl::StatusOr<Placement> find_placement(const Environment& environment, const SaidPlacement& said = {});
// True if either has anything.
bool says_place(const Environment& environment, const SaidPlacement& said);

inline constexpr std::int64_t kUsualPort = 7461;

// The port of the coordinator on the first of several hosts. All hosts have to know it in advance, so a job
// without a fixed port gets kUsualPort.
std::int64_t port_of_coordinator(const Placement& placement, const config::JobConfig& job);

// The first host of a Slurm list: "node[01-04,07],gpu3" gives "node01". Empty if the text is no such list.
std::string first_of_nodelist(const std::string& list);

// The workers of one host: the job's devices there.
std::vector<std::string> workers_of_host(const config::JobConfig& job, std::int64_t host);

}  // namespace paceline::launch

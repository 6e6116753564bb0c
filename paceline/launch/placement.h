// Which of several hosts this one is, and where the first one is. The command line says it; for each missing
// option, environment variables of the launchers for many hosts say it: torchrun and similar ones (RANK,
// WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) and Slurm (SLURM_PROCID, SLURM_NTASKS,
// SLURM_JOB_NODELIST, or those of its step), in this order. MASTER_ADDR and MASTER_PORT count with each of
// them. Pure: the environment is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"

namespace paceline::launch {

using Environment = std::map<std::string, std::string>;

// On the command line.
struct SaidPlacement {
  std::optional<std::int64_t> rank{};
  std::optional<std::int64_t> hosts{};
  std::string coordinator{};  // HOST:PORT of rank 0
};

struct Placement {
  std::int64_t rank = 0;
  std::int64_t hosts = 1;
  std::string first_host = "127.0.0.1";  // where rank 0 is
  std::int64_t port = 0;                 // of its coordinator; 0: as the job has it
  friend bool operator==(const Placement&, const Placement&) = default;
};

// One host alone, if neither says anything. Errors: a value is missing or makes no sense; several processes
// on one host, where one starts them all.
absl::StatusOr<Placement> find_placement(const Environment& environment, const SaidPlacement& said = {});
// Whether anything is said.
bool says_place(const Environment& environment, const SaidPlacement& said);

inline constexpr std::int64_t kUsualPort = 7461;

// Of the coordinator on the first of several hosts: all have to know it before there is one, so that "any
// free one" of the job is kUsualPort.
std::int64_t port_of_coordinator(const Placement& placement, const config::JobConfig& job);

// The first host of a Slurm list: "node[01-04,07],gpu3" gives "node01". Empty when it is none.
std::string first_of_nodelist(const std::string& list);

// The workers of one host: the devices that the job has there.
std::vector<std::string> workers_of_host(const config::JobConfig& job, std::int64_t host);

}  // namespace paceline::launch

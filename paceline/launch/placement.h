// Which of several hosts this one is, and where the first one is, as whoever starts programs on many hosts
// says in environment variables: torchrun and its like (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), Open MPI
// (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) and Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_NODELIST), in
// this order. MASTER_ADDR and MASTER_PORT count with each of them. Pure: the environment is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/job_config.h"

namespace paceline::launch {

using Environment = std::map<std::string, std::string>;

struct Placement {
  static constexpr std::int64_t kUsualPort = 7461;

  std::int64_t rank = 0;
  std::int64_t hosts = 1;
  std::string first_host = "127.0.0.1";  // where rank 0 is
  std::int64_t port = kUsualPort;        // of its coordinator
  friend bool operator==(const Placement&, const Placement&) = default;
};

// One host alone, where nothing is said. Errors: a variable that is missing or makes no sense; several
// processes a host, where one starts them all.
absl::StatusOr<Placement> find_placement(const Environment& environment);

// The first host of a Slurm list: "node[01-04,07],gpu3" gives "node01". Empty when it is none.
std::string first_of_nodelist(const std::string& list);

// The workers of one host: the devices that the job has there.
std::vector<std::string> workers_of_host(const config::JobConfig& job, std::int64_t host);

}  // namespace paceline::launch

// The memory that the processes of a job may use on this host.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::launch {

struct HostMemory {
  std::int64_t bytes = 0;  // 0: unknown
  std::string of;          // the owner of the limit: "this host", "its control group"
};

// The least of the host's memory and the limits of this process's control group and the groups above it.
HostMemory host_memory();

}  // namespace paceline::launch

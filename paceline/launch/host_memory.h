// How much memory the processes of a job may have on this host.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::launch {

struct HostMemory {
  std::int64_t bytes = 0;  // 0: nobody knows
  std::string of;          // what sets the limit: "this host", "its control group"
};

// The least of what the host has and what the control group of this process, and those above it, may have.
HostMemory host_memory();

}  // namespace paceline::launch

// How much memory this process holds, as the system counts it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace paceline {

// This process's memory in bytes, with what it shares with others; 0 if the system does not say.
inline std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace paceline

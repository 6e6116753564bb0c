#include "paceline/processes/launch/host_memory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <absl/strings/numbers.h>

#include "paceline/base/control_groups.h"

namespace paceline::launch {

namespace {

namespace fs = std::filesystem;

// The file of a group without a limit has a word, or a number larger than any host's memory.
void take_limit(const fs::path& file, HostMemory& memory) {
  std::string text;
  std::int64_t bytes = 0;
  if (!(std::ifstream(file) >> text) || !absl::SimpleAtoi(text, &bytes) || bytes <= 0) return;
  if (memory.bytes == 0 || bytes < memory.bytes) memory = {bytes, "its control group"};
}

}  // namespace

HostMemory host_memory() {
  HostMemory memory;
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) memory = {std::int64_t{pages} * sysconf(_SC_PAGESIZE), "this host"};
  for (const fs::path& group : control_groups("memory")) {
    for (const char* file : {"memory.max", "memory.limit_in_bytes"}) take_limit(group / file, memory);
  }
  return memory;
}

}  // namespace paceline::launch

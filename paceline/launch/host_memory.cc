#include "paceline/launch/host_memory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <absl/strings/numbers.h>

namespace paceline::launch {

namespace {

namespace fs = std::filesystem;

// Of a group without a limit there is a word or a number that no host has.
void take_limit(const fs::path& file, HostMemory& memory) {
  std::string text;
  std::int64_t bytes = 0;
  if (!(std::ifstream(file) >> text) || !absl::SimpleAtoi(text, &bytes) || bytes <= 0) return;
  if (memory.bytes == 0 || bytes < memory.bytes) memory = {bytes, "its control group"};
}

void take_limits(fs::path group, const fs::path& root, const char* file, HostMemory& memory) {
  take_limit(root / file, memory);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    take_limit(root / group / file, memory);
}

}  // namespace

HostMemory host_memory() {
  HostMemory memory;
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) memory = {std::int64_t{pages} * sysconf(_SC_PAGESIZE), "this host"};
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) take_limits(group, "/sys/fs/cgroup", "memory.max", memory);
    if (controllers == "memory") take_limits(group, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", memory);
  }
  return memory;
}

}  // namespace paceline::launch

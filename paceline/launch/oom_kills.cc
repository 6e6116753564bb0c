#include "paceline/launch/oom_kills.h"

#include <fstream>
#include <string>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>

namespace paceline::launch {

namespace {

// Of one file of the kernel's; nothing where there is none, or it has no such line.
bool read_count(const std::string& path, std::int64_t& count) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word == "oom_kill") return static_cast<bool>(file >> count);
  }
  return false;
}

}  // namespace

std::int64_t oom_kills() {
  std::int64_t count = 0;
  std::ifstream groups("/proc/self/cgroup");
  // "0::/a/group" is of version 2, "4:memory:/a/group" of version 1. Within a container its path may be the
  // root.
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool first_version = absl::StrContains(parts[1], "memory");
    if (!first_version && !parts[1].empty()) continue;
    const std::string mounted = first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const std::string file = first_version ? "/memory.oom_control" : "/memory.events";
    if (read_count(mounted + parts[2] + file, count) || read_count(mounted + file, count)) return count;
  }
  return 0;
}

}  // namespace paceline::launch

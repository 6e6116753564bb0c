#include "paceline/processes/launch/oom_kills.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "paceline/base/control_groups.h"

namespace paceline::launch {

namespace {

// Reads the count of one of the kernel's files; false if there is no such file, or no such line.
bool read_count(const std::filesystem::path& path, std::int64_t& count) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word == "oom_kill") return static_cast<bool>(file >> count);
  }
  return false;
}

}  // namespace

std::int64_t oom_kills() {
  std::int64_t count = 0;
  for (const std::filesystem::path& group : control_groups("memory")) {
    for (const char* file : {"memory.events", "memory.oom_control"}) {
      if (read_count(group / file, count)) return count;
    }
  }
  return 0;
}

}  // namespace paceline::launch

#include "paceline/processes/launch/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <absl/strings/numbers.h>

#include "paceline/base/control_groups.h"

namespace paceline::launch {

namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::string text;
  std::int64_t number = 0;
  if (!(std::ifstream(file) >> text) || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

// The file of a group without a limit has a word, or a number larger than any host's memory.
std::optional<std::int64_t> limit_of(const fs::path& group) {
  std::optional<std::int64_t> least;
  for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
    const auto limit = number_in(group / file);
    if (limit && *limit > 0) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

// The bytes of files that the kernel keeps in memory for a group. In version 1 of control groups, the keys with "total_"
// count the groups below it too.
std::int64_t cached_in(const fs::path& group) {
  std::ifstream file(group / "memory.stat");
  std::int64_t own = 0, all = 0, bytes = 0;
  for (std::string key; file >> key >> bytes;) {
    if (key == "active_file" || key == "inactive_file") own += bytes;
    if (key == "total_active_file" || key == "total_inactive_file") all += bytes;
  }
  return std::max(own, all);
}

}  // namespace

HostMemory host_memory() {
  HostMemory memory;
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) memory = {std::int64_t{pages} * sysconf(_SC_PAGESIZE), "this host"};
  for (const fs::path& group : control_groups("memory")) {
    const auto limit = limit_of(group);
    if (limit && (memory.bytes == 0 || *limit < memory.bytes)) memory = {*limit, "its control group"};
  }
  return memory;
}

std::optional<std::int64_t> memory_left_in(const fs::path& group) {
  const auto limit = limit_of(group);
  auto taken = number_in(group / "memory.current");
  if (!taken) taken = number_in(group / "memory.usage_in_bytes");
  if (!limit || !taken) return std::nullopt;
  return std::clamp<std::int64_t>(*limit - *taken + cached_in(group), 0, *limit);
}

std::optional<std::int64_t> memory_left() {
  std::optional<std::int64_t> least;
  for (const fs::path& group : control_groups("memory")) {
    if (const auto left = memory_left_in(group)) least = std::min(least.value_or(*left), *left);
  }
  return least;
}

}  // namespace paceline::launch

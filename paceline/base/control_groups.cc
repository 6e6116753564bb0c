#include "paceline/base/control_groups.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

namespace paceline {

namespace {

namespace fs = std::filesystem;

constexpr char kMounted[] = "/sys/fs/cgroup";

// Whether one of "cpu,cpuacct" is "cpu".
bool names(const std::string& controllers, const std::string& controller) {
  const std::vector<std::string> all = absl::StrSplit(controllers, ',');
  return std::find(all.begin(), all.end(), controller) != all.end();
}

std::optional<double> read_number(std::istream& file) {
  std::string word;
  double number = 0;
  if (!(file >> word) || !absl::SimpleAtod(word, &number)) return std::nullopt;
  return number;
}

}  // namespace

std::vector<fs::path> control_groups(const std::string& controller) {
  std::vector<fs::path> all;
  std::ifstream groups("/proc/self/cgroup");
  // "0::/a/group" is of version 2, "4:memory:/a/group" of version 1. Within a container its path may be the
  // root.
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || (!parts[1].empty() && !names(parts[1], controller))) continue;
    const fs::path root = parts[1].empty() ? fs::path(kMounted) : fs::path(kMounted) / controller;
    for (fs::path group = fs::path(parts[2]).relative_path(); !group.empty(); group = group.parent_path())
      all.push_back(root / group);
    all.push_back(root);
  }
  return all;
}

std::optional<double> processors_of_group(const fs::path& group) {
  // "200000 100000", or "max 100000".
  std::ifstream both(group / "cpu.max");
  std::ifstream first(group / "cpu.cfs_quota_us"), second(group / "cpu.cfs_period_us");
  std::istream& quota_file = both ? static_cast<std::istream&>(both) : first;
  std::istream& period_file = both ? static_cast<std::istream&>(both) : second;
  const std::optional<double> quota = read_number(quota_file);
  const std::optional<double> period = read_number(period_file);
  // The first version of control groups writes -1 for no limit.
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt;
  return *quota / *period;
}

namespace {

// The processors that this thread may run on; nothing if the system does not say. std::thread::hardware_concurrency() may
// count those that a cpuset keeps from this process.
std::optional<int> allowed_processors() {
  constexpr int kMost = 1 << 16;
  for (int size = 1024; size <= kMost; size *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(size));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    const bool told = set != nullptr && sched_getaffinity(0, bytes, set) == 0;
    const int count = told ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (told) return count;
  }
  return std::nullopt;
}

}  // namespace

int usable_processors() {
  double count = allowed_processors().value_or(static_cast<int>(std::thread::hardware_concurrency()));
  for (const fs::path& group : control_groups("cpu")) {
    if (const auto allowed = processors_of_group(group)) count = std::min(count, std::ceil(*allowed));
  }
  return std::max(1, static_cast<int>(count));
}

}  // namespace paceline

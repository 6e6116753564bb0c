#include "paceline/processes/launch/raised_priority.h"

#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace paceline::launch {

void raise_priority(pid_t process) {
  namespace fs = std::filesystem;
  const int own = getpriority(PRIO_PROCESS, 0);
  std::vector<pid_t> processes{process};
  while (!processes.empty()) {
    const fs::path threads = fmt::format("/proc/{}/task", processes.back());
    processes.pop_back();
    std::error_code error;
    for (auto one = fs::directory_iterator(threads, error); !error && one != fs::directory_iterator();
         one.increment(error)) {
      const int thread = std::atoi(one->path().filename().c_str());
      if (thread > 0) setpriority(PRIO_PROCESS, static_cast<id_t>(thread), own);
      std::ifstream children(one->path() / "children");
      for (pid_t child; children >> child;) processes.push_back(child);
    }
  }
}

}  // namespace paceline::launch

// A card's memory may come back late after a process that had it was killed: tries again while there is too little.
#pragma once

#include <chrono>
#include <thread>

#include <absl/status/status.h>

namespace paceline::server_process {

struct MemoryPatience {
  std::chrono::milliseconds pause{300};
  std::chrono::milliseconds longest{8000};  // shorter than the coordinator waits for a server that was killed
};

// The last result of `take`, an absl::StatusOr.
template <class Take>
auto once_memory_is_back(const Take& take, MemoryPatience patience = {}) {
  const auto until = std::chrono::steady_clock::now() + patience.longest;
  auto taken = take();
  while (absl::IsResourceExhausted(taken.status()) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(patience.pause);
    taken = take();
  }
  return taken;
}

}  // namespace paceline::server_process

// Threads that compute gradients and evaluations of one model, each with a replica of its own. What a task
// gives depends on its inputs alone, so it does not matter which thread takes it, or when.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/train/replica.h"

namespace paceline::compute {

class ComputePool {
 public:
  using Task = std::function<void(train::Replica&)>;

  // One thread a replica. Requires: at least one.
  explicit ComputePool(std::vector<std::unique_ptr<train::Replica>> replicas);
  // Ends after the tasks under way; those not begun are dropped.
  ~ComputePool();

  void post(Task task);

 private:
  void work(train::Replica& replica);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  const std::vector<std::unique_ptr<train::Replica>> replicas_;
  std::vector<std::jthread> threads_;  // last: they use everything above
};

}  // namespace paceline::compute

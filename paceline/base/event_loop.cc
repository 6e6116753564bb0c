#include "paceline/base/event_loop.h"

#include <utility>

namespace paceline {

bool EventLoop::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
  return true;
}

void EventLoop::run(std::chrono::milliseconds period, const Task& tick) {
  auto next_tick = std::chrono::steady_clock::now() + period;
  while (true) {
    std::deque<Task> batch;
    {
      std::unique_lock lock(mutex_);
      posted_.wait_until(lock, next_tick, [this] { return stopped_ || !tasks_.empty(); });
      batch.swap(tasks_);
      if (stopped_ && batch.empty()) {
        closed_ = true;
        return;
      }
    }
    for (Task& task : batch) task();
    if (!stopped_ && std::chrono::steady_clock::now() >= next_tick) {
      tick();
      next_tick = std::chrono::steady_clock::now() + period;
    }
  }
}

}  // namespace paceline

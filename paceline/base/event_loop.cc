#include "paceline/base/event_loop.h"

#include <algorithm>
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
      posted_.wait_until(lock, next_alarm(next_tick), [this] { return stopped_ || !tasks_.empty(); });
      batch.swap(tasks_);
      if (stopped_ && batch.empty()) {
        closed_ = true;
        return;
      }
    }
    for (Task& task : batch) task();
    ring_first_due();
    if (!stopped_ && std::chrono::steady_clock::now() >= next_tick) {
      tick();
      next_tick = std::chrono::steady_clock::now() + period;
    }
  }
}

EventLoop::SteadyTime EventLoop::next_alarm(SteadyTime next_tick) const {
  return timers_.empty() ? next_tick : std::min(next_tick, timers_.begin()->first);
}

// Rings only one timer, so that timers which set each other leave room for posted tasks, and for ticks.
void EventLoop::ring_first_due() {
  if (stopped_ || timers_.empty() || timers_.begin()->first > std::chrono::steady_clock::now()) return;
  Timer* const timer = timers_.extract(timers_.begin()).value().second;
  timer->task_();
}

void Timer::set(std::chrono::steady_clock::time_point when) {
  cancel();
  when_ = when;
  loop_.timers_.emplace(when_, this);
}

void Timer::cancel() { loop_.timers_.erase({when_, this}); }

}  // namespace paceline

// One thread's work, handed to it by others, and done at its time by timers. Objects that live on the loop
// need no lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

namespace paceline {

class Timer;

class EventLoop {
 public:
  using Task = std::function<void()>;

  // Callable from any thread. False, and the task is dropped, once the loop has ended.
  bool post(Task task);

  // Call it on the loop's thread. Runs tasks in the order posted, and `tick` every `period` between them,
  // until stop(); then the tasks that are still posted. Timers ring between them, as soon as their time has
  // come.
  void run(std::chrono::milliseconds period, const Task& tick);
  // Call it on the loop's thread, or post it.
  void stop() { stopped_ = true; }

 private:
  friend class Timer;
  using SteadyTime = std::chrono::steady_clock::time_point;

  SteadyTime next_alarm(SteadyTime next_tick) const;
  void ring_first_due();

  std::mutex mutex_;  // guards the members up to `closed_`
  std::condition_variable posted_;
  std::deque<Task> tasks_;
  bool closed_ = false;
  // For the loop's thread only.
  bool stopped_ = false;
  std::set<std::pair<SteadyTime, Timer*>> timers_;  // timers that are set
};

// One task of a loop, run at a time that can be moved. Used on the loop's thread only; the loop outlives it.
class Timer {
 public:
  Timer(EventLoop& loop, EventLoop::Task task) : loop_(loop), task_(std::move(task)) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { cancel(); }

  // Runs the task once, not before `when`; this replaces an earlier set(). A time in the past means now.
  void set(std::chrono::steady_clock::time_point when);
  void cancel();

 private:
  friend class EventLoop;

  EventLoop& loop_;
  const EventLoop::Task task_;
  std::chrono::steady_clock::time_point when_;  // its key in the loop's timers
};

}  // namespace paceline

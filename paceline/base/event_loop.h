// One thread's work: tasks that others hand to it, timers, and descriptors that it watches. Objects that live on the loop
// need no lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/wake_event.h"

namespace paceline {

class Timer;
class Watch;

class EventLoop {
 public:
  using Task = std::function<void()>;

  // Aborts if the process has no file descriptor left.
  EventLoop();

  // Callable from any thread. False, and the task is dropped, once the loop has ended.
  bool post(Task task);

  // Call it on the loop's thread. Runs tasks in the order posted, and `tick` every `period` between them,
  // until stop(); then the tasks that are still posted. Between them timers ring, as soon as their time has come, and
  // watched descriptors are looked at.
  void run(std::chrono::milliseconds period, const Task& tick);
  // Call it on the loop's thread, or post it.
  void stop() { stopped_ = true; }

 private:
  friend class Timer;
  friend class Watch;
  using SteadyTime = std::chrono::steady_clock::time_point;

  SteadyTime next_alarm(SteadyTime next_tick) const;
  void sleep_until(SteadyTime when);
  void ring_first_due();
  void take_one_ready();

  const WakeEvent posted_;
  const FileDescriptor watched_;  // epoll's
  std::mutex mutex_;              // guards the members up to `closed_`
  std::deque<Task> tasks_;
  bool asleep_ = false;
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

// A descriptor that a loop watches from the construction on. The loop and the descriptor outlive it; it is used on the
// loop's thread only, or after the loop has ended.
class Watch {
 public:
  // `ready` is called again and again while the descriptor can be read, has an error or is closed at the other end, and,
  // if `writable` is asked for, while it can be written.
  Watch(EventLoop& loop, int fd, EventLoop::Task ready);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // Says what to watch for. Callable from any thread.
  void ask_for(bool readable, bool writable);

 private:
  friend class EventLoop;

  EventLoop& loop_;
  const int fd_;
  const EventLoop::Task ready_;
};

}  // namespace paceline

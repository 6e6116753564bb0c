#include "paceline/base/event_loop.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/base/check.h"
#include "paceline/base/timespec.h"

namespace paceline {

namespace {

// A process without a loop can do nothing, as one without memory.
WakeEvent new_wake_event() {
  absl::StatusOr<WakeEvent> event = WakeEvent::create();
  PACELINE_CHECK(event.ok(), "{}", std::string(event.status().message()));
  return *std::move(event);
}

}  // namespace

EventLoop::EventLoop() : posted_(new_wake_event()), watched_(epoll_create1(EPOLL_CLOEXEC)) {
  PACELINE_CHECK(watched_.valid(), "no file descriptor is left");
}

bool EventLoop::post(Task task) {
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
    asleep = std::exchange(asleep_, false);
  }
  if (asleep) posted_.wake();
  return true;
}

void EventLoop::run(std::chrono::milliseconds period, const Task& tick) {
  auto next_tick = std::chrono::steady_clock::now() + period;
  while (true) {
    std::deque<Task> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(tasks_);
      if (stopped_ && batch.empty()) {
        closed_ = true;
        return;
      }
      asleep_ = batch.empty();
    }
    if (batch.empty()) sleep_until(next_alarm(next_tick));
    for (Task& task : batch) task();
    ring_first_due();
    take_one_ready();
    if (!stopped_ && std::chrono::steady_clock::now() >= next_tick) {
      tick();
      next_tick = std::chrono::steady_clock::now() + period;
    }
  }
}

// Until a task is posted, a descriptor is ready, or the time has come.
void EventLoop::sleep_until(SteadyTime when) {
  const timespec limit = timespec_of(when - std::chrono::steady_clock::now());
  std::array<pollfd, 2> events{pollfd{posted_.fd(), POLLIN, 0}, pollfd{watched_.get(), POLLIN, 0}};
  // After an error, for example a signal, the caller looks at everything.
  static_cast<void>(ppoll(events.data(), events.size(), &limit, nullptr));
  const std::lock_guard lock(mutex_);
  asleep_ = false;
  if (events[0].revents != 0) posted_.clear();
}

// Takes only one, because what it calls may destroy any watch.
void EventLoop::take_one_ready() {
  epoll_event event{};
  if (stopped_ || epoll_wait(watched_.get(), &event, 1, 0) != 1) return;
  const Task ready = static_cast<Watch*>(event.data.ptr)->ready_;  // a copy: the call may destroy the watch
  ready();
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

Watch::Watch(EventLoop& loop, int fd, EventLoop::Task ready)
    : loop_(loop), fd_(fd), ready_(std::move(ready)) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = this}};
  PACELINE_CHECK(epoll_ctl(loop_.watched_.get(), EPOLL_CTL_ADD, fd_, &event) == 0,
                 "descriptor {} cannot be watched", fd_);
}

Watch::~Watch() { epoll_ctl(loop_.watched_.get(), EPOLL_CTL_DEL, fd_, nullptr); }

void Watch::ask_for(bool readable, bool writable) {
  epoll_event event{.events = (readable ? static_cast<std::uint32_t>(EPOLLIN) : 0u) |
                              (writable ? static_cast<std::uint32_t>(EPOLLOUT) : 0u),
                    .data = {.ptr = this}};
  epoll_ctl(loop_.watched_.get(), EPOLL_CTL_MOD, fd_, &event);
}

}  // namespace paceline

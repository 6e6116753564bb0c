// One thread's work, handed to it by others. Whatever lives on the loop needs no lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace paceline {

class EventLoop {
 public:
  using Task = std::function<void()>;

  // From any thread. False, and the task is dropped, once the loop has ended.
  bool post(Task task);

  // On the loop's thread: runs tasks in the order posted, and `tick` every `period` between them, until
  // stop(); then what was still posted.
  void run(std::chrono::milliseconds period, const Task& tick);
  // On the loop's thread, or posted.
  void stop() { stopped_ = true; }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Task> tasks_;
  bool closed_ = false;
  bool stopped_ = false;  // of the loop's thread
};

}  // namespace paceline

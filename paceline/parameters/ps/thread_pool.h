// A few threads that divide one range at a time among them and go back to sleep. Owned by one thread, which
// works too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::ps {

class ThreadPool {
 public:
  // `threads` in all, the caller's included. At least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return static_cast<int>(threads_); }

  // Calls work(begin, end) for pieces of [0, size), one a thread, cut at multiples of `grain`; returns when
  // all are done. The pieces depend on size, grain and the number of threads only.
  void share(std::int64_t size, std::int64_t grain,
             const std::function<void(std::int64_t, std::int64_t)>& work);

 private:
  void serve(std::size_t index);
  void run_piece(std::size_t index);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::int64_t, std::int64_t)>* work_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t grain_ = 1;
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;
  bool stop_ = false;
  std::size_t threads_;
  std::vector<std::jthread> others_;
};

}  // namespace paceline::ps

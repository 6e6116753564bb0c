#include "paceline/parameters/ps/thread_pool.h"

#include <algorithm>

namespace paceline::ps {

ThreadPool::ThreadPool(int threads) : threads_(static_cast<std::size_t>(std::max(1, threads))) {
  for (std::size_t i = 1; i < threads_; ++i) others_.emplace_back([this, i] { serve(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void ThreadPool::share(std::int64_t size, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    size_ = size;
    grain_ = grain;
    busy_ = others_.size();
    ++round_;
  }
  changed_.notify_all();
  run_piece(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::serve(std::size_t index) {
  std::uint64_t done = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || round_ != done; });
      if (stop_) return;
      done = round_;
    }
    run_piece(index);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) changed_.notify_all();
  }
}

void ThreadPool::run_piece(std::size_t index) {
  const std::int64_t grains = (size_ + grain_ - 1) / grain_;
  const auto count = static_cast<std::int64_t>(threads_);
  const auto mine = static_cast<std::int64_t>(index);
  const std::int64_t begin = grains * mine / count * grain_;
  const std::int64_t end = std::min(size_, grains * (mine + 1) / count * grain_);
  if (begin < end) (*work_)(begin, end);
}

}  // namespace paceline::ps

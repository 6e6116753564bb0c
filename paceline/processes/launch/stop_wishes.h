// Counts the requests to stop among the signals that come: pure, and safe in a signal handler.
#pragma once

#include <cstdint>

namespace paceline::launch {

// One cause may send two signals: a shell passes on the SIGHUP that the kernel sends as well, and torchrun
// the Ctrl-C that its terminal sends. Both come within milliseconds. So a signal counts only if a second has
// passed since the last one that counted.
class StopWishes {
 public:
  static constexpr std::int64_t kApart_ns = 1'000'000'000;

  // True if the signal counts. Times are of one clock that does not go back.
  bool came(std::int64_t at_ns) {
    if (count_ > 0 && at_ns - counted_at_ns_ < kApart_ns) return false;
    counted_at_ns_ = at_ns;
    count_ = count_ + 1;
    return true;
  }
  int count() const { return count_; }

 private:
  volatile int count_ = 0;
  std::int64_t counted_at_ns_ = 0;
};

}  // namespace paceline::launch

// The speed of payloads over a link, measured by the end that receives them. It sends no extra data: it times
// the payloads that come anyway, from the moment at which this end was ready for them.
//
// A link is busy from the time when a payload may come until all that may come have arrived. So a busy time
// with one payload is a round trip, plus the payload's bytes divided by the bandwidth. Messages so small that
// they come with their header are not counted: their bandwidth does not show.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace paceline::links {

struct Received {
  std::int64_t bytes = 0;
  std::chrono::nanoseconds busy{0};
  std::int64_t times = 0;  // the number of busy times in which something came

  Received& operator+=(const Received& other) {
    bytes += other.bytes;
    busy += other.busy;
    times += other.times;
    return *this;
  }
  friend Received operator-(const Received& one, const Received& other) {
    return {one.bytes - other.bytes, one.busy - other.busy, one.times - other.times};
  }
  friend bool operator==(const Received&, const Received&) = default;
};

// The meter of one link. A pure fold: it has no clock.
class LinkMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A payload may come from now on.
  void ready(Time now) {
    if (awaited_++ > 0) return;
    since_ = now;
    first_ = true;
  }
  // A payload has come whole. Requires: ready() was called for it.
  void landed(Time now, std::int64_t bytes) {
    --awaited_;
    // A busy time is counted together with its first bytes; otherwise the next bytes would be divided among
    // two.
    so_far_ += {bytes, now - since_, first_ ? 1 : 0};
    first_ = false;
    since_ = now;
  }
  const Received& so_far() const { return so_far_; }

 private:
  Received so_far_;
  Time since_;
  bool first_ = false;  // whether the next payload is the first of this busy time
  int awaited_ = 0;
};

// The sum over several links, one after the other or at the same time. Any thread.
class ReceivedCount {
 public:
  void add(const Received& more) {
    const std::lock_guard lock(mutex_);
    so_far_ += more;
  }
  Received so_far() const {
    const std::lock_guard lock(mutex_);
    return so_far_;
  }

 private:
  mutable std::mutex mutex_;
  Received so_far_;
};

}  // namespace paceline::links

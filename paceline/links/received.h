// How fast payloads come over a link, as the end that receives them sees it. It sends no extra data: it times
// the payloads that come anyway, from the moment when this end was ready for them.
//
// A link is busy from when a payload may come until all that may come are there. A busy time of one payload
// is so a round trip and the payload's bytes over the bandwidth. Messages so small that they come with their
// header are not counted: their bandwidth does not show.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace paceline::links {

struct Received {
  std::int64_t bytes = 0;
  std::chrono::nanoseconds busy{0};
  std::int64_t times = 0;  // that the link was busy, and something came

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

// Of one link. A pure fold: it has no clock.
class LinkMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A payload may come from now on.
  void ready(Time now) {
    if (awaited_++ > 0) return;
    since_ = now;
    first_ = true;
  }
  // All of it is there. Requires: ready() was told of it.
  void landed(Time now, std::int64_t bytes) {
    --awaited_;
    // A busy time counts from when it has bytes: else the next bytes would be taken for those of two.
    so_far_ += {bytes, now - since_, first_ ? 1 : 0};
    first_ = false;
    since_ = now;
  }
  const Received& so_far() const { return so_far_; }

 private:
  Received so_far_;
  Time since_;
  bool first_ = false;  // of this busy time, what lands next
  int awaited_ = 0;
};

// Of several links, one after the other or at the same time. Any thread.
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

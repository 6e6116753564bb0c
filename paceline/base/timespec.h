// A time span as system calls take it.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace paceline {

// A span below zero is none.
inline timespec timespec_of(std::chrono::nanoseconds span) {
  const auto left = std::max(span, std::chrono::nanoseconds::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
}

}  // namespace paceline

// Limits the lines that are written about events which anyone can cause: kAtOnce at once, and then one a
// second. It counts the lines that are left out. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace paceline {

class LineLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kAtOnce = 50;
  static constexpr std::chrono::seconds kEach{1};
  static constexpr std::chrono::seconds kSayEvery{10};

  // Whether one more may be written.
  bool take(Time now) {
    const Time spent = spent_ ? std::max(*spent_, now - kAtOnce * kEach) : now - kAtOnce * kEach;
    if (now < spent + kEach) {
      if (left_out_++ == 0) since_ = now;
      return false;
    }
    spent_ = spent + kEach;
    return true;
  }

  // How many lines were left out, if it is time to say so, else 0. Saying so resets the count.
  std::int64_t left_out(Time now) {
    if (left_out_ == 0 || now < since_ + kSayEvery) return 0;
    return std::exchange(left_out_, 0);
  }

 private:
  std::optional<Time> spent_;  // lines up to this time have been written
  Time since_;                 // the first line that was left out
  std::int64_t left_out_ = 0;
};

}  // namespace paceline

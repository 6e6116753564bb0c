// How many lines may be written of what anybody can bring about: so many at once, and one a second after
// that. What is left out is counted. Pure.
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

  // How many lines were left out, when it is time to say so, and 0 before. Saying so resets the count.
  std::int64_t left_out(Time now) {
    if (left_out_ == 0 || now < since_ + kSayEvery) return 0;
    return std::exchange(left_out_, 0);
  }

 private:
  std::optional<Time> spent_;  // the seconds up to there have been written for
  Time since_;                 // of what is left out
  std::int64_t left_out_ = 0;
};

}  // namespace paceline

// How likely it is that a process is dead, from the times when it was heard: the φ accrual failure detector
// of Hayashibara, Défago, Yared and Katayama, "The φ Accrual Failure Detector", SRDS 2004:
//
//   φ(now) = −log10(P_later(now − last)),   P_later(t) = 1 − F(t),
//
// F the normal distribution of the intervals between the last arrivals, by their mean and variance over a
// sliding window. With φ = 8 the detector is wrong once in 10^8 silences, if intervals stay the same. So a
// process with an even rhythm is missed soon, and one with an uneven rhythm gets more time.
//
// Our additions: a pause that is always allowed, because processors are shared and programs stop briefly (the
// mean is later by it); a least deviation, because a perfectly even process would otherwise be missed at its
// first delay; and assumed values before the first intervals. Pure: time is an argument. Times come in
// ascending order.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

namespace paceline::coordinator {

class PhiAccrual {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  static constexpr std::size_t kWindow = 200;  // intervals
  static constexpr double kDead = 8;           // φ from which on a process is given up
  static constexpr Seconds kBorne{1.5};
  static constexpr Seconds kLeastDeviation{0.1};
  static constexpr Seconds kFirstMean{0.25};

  // Heard for the first time.
  explicit PhiAccrual(Time first) : last_(first) {}

  // `running_since`: Hearing's. An interval that began before does not count.
  void heard(Time now, Time running_since = Time::min());
  double phi(Time now) const;
  bool dead(Time now) const { return phi(now) >= kDead; }
  Seconds silence(Time now) const { return now - last_; }

 private:
  Time last_;
  std::deque<double> intervals_;  // s
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

// "silent for 2.3 s, phi 8.4".
std::string in_words(const PhiAccrual& detector, PhiAccrual::Time now);

}  // namespace paceline::coordinator

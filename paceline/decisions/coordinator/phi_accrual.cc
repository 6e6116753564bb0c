#include "paceline/decisions/coordinator/phi_accrual.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include <fmt/format.h>

namespace paceline::coordinator {

void PhiAccrual::heard(Time now, Time running_since) {
  const Time before = std::exchange(last_, now);
  if (before < running_since) return;
  const double interval = Seconds(now - before).count();
  intervals_.push_back(interval);
  sum_ += interval;
  sum_of_squares_ += interval * interval;
  if (intervals_.size() <= kWindow) return;
  const double oldest = intervals_.front();
  intervals_.pop_front();
  sum_ -= oldest;
  sum_of_squares_ -= oldest * oldest;
}

double PhiAccrual::phi(Time now) const {
  double mean = kFirstMean.count();
  double deviation = kFirstMean.count();
  if (intervals_.size() >= 2) {
    const auto count = static_cast<double>(intervals_.size());
    mean = sum_ / count;
    deviation = std::sqrt(std::max(0.0, sum_of_squares_ / count - mean * mean));
  }
  deviation = std::max(deviation, kLeastDeviation.count());
  const double late = (silence(now).count() - mean - kBorne.count()) / deviation;
  // Beyond what a double can say, P_later is 0: φ is then as large as can be said.
  const double later =
      std::max(0.5 * std::erfc(late / std::numbers::sqrt2), std::numeric_limits<double>::min());
  return -std::log10(later);
}

std::string in_words(const PhiAccrual& detector, PhiAccrual::Time now) {
  return fmt::format("silent for {:.1f} s, phi {:.1f}", detector.silence(now).count(), detector.phi(now));
}

}  // namespace paceline::coordinator

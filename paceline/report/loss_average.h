// The training loss of "now": a mean over the samples of the latest commits, older ones counting
// exponentially less. Weighted by samples, so that a policy of many small commits and one of few large ones
// compare.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace paceline::report {

class LossAverage {
 public:
  // A loss that is not a number is shown at once, and forgotten with the next one that is. Requires: samples
  // and window positive; `window`: the samples after which an old loss counts 1/e.
  void add(double loss, std::int64_t samples, std::int64_t window) {
    if (!std::isfinite(loss)) sum_ = weight_ = 0;
    broken_ = !std::isfinite(loss);
    any_ = true;
    if (broken_) return;
    const double weight = static_cast<double>(samples);
    const double keep = std::exp(-weight / static_cast<double>(window));
    sum_ = keep * sum_ + weight * loss;
    weight_ = keep * weight_ + weight;
  }

  // Nothing before the first loss; NaN if the latest one was not a finite number.
  std::optional<double> value() const {
    if (!any_) return std::nullopt;
    return broken_ ? std::numeric_limits<double>::quiet_NaN() : sum_ / weight_;
  }

 private:
  double sum_ = 0;
  double weight_ = 0;
  bool any_ = false;
  bool broken_ = false;
};

}  // namespace paceline::report

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
  // and window positive; `window`: the samples after which an old loss counts 1/e. `weight`: how much this loss counts,
  // if that is not the number of its samples; one that counts nothing is passed over.
  void add(double loss, std::int64_t samples, std::int64_t window, std::optional<double> weight = {}) {
    if (weight == 0) return;
    if (!std::isfinite(loss)) sum_ = weight_ = 0;
    broken_ = !std::isfinite(loss);
    any_ = true;
    if (broken_) return;
    const double keep = std::exp(-static_cast<double>(samples) / static_cast<double>(window));
    const double counts = weight.value_or(static_cast<double>(samples));
    sum_ = keep * sum_ + counts * loss;
    weight_ = keep * weight_ + counts;
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

// How late the gradients of a replica are committed: it looks that far ahead. Pure.
#pragma once

#include <optional>

namespace paceline::control {

class Lateness {
 public:
  // A gradient was committed `staleness` versions and `delay` bulk rounds after its base version. Returns whether it
  // counts. The first one does. One that is far later than usual does not, because its replica may have stalled once;
  // if the next one is far later, too, that one counts.
  bool add(double staleness, double delay) {
    const bool far = mean_ && delay > kFar * (mean_->delay + 1);
    const bool counts = !far || far_;
    far_ = far;
    if (counts) count(staleness, delay);
    return counts;
  }
  // The same, and it counts in any case.
  void count(double staleness, double delay) {
    if (!mean_) mean_ = {staleness, delay};
    mean_->staleness += kNewest * (staleness - mean_->staleness);
    mean_->delay += kNewest * (delay - mean_->delay);
  }

  // The newest gradient counts a fifth, and the first one fully.
  struct Mean {
    double staleness = 0, delay = 0;
  };
  // Nothing before the first one.
  const std::optional<Mean>& mean() const { return mean_; }

 private:
  static constexpr double kFar = 4;  // times what is usual and a round
  static constexpr double kNewest = 0.2;
  std::optional<Mean> mean_;
  bool far_ = false;  // the last one was far later than usual
};

}  // namespace paceline::control

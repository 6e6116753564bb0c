#include "paceline/simulation/virtual_time/deviation_meter.h"

#include <algorithm>
#include <cmath>

namespace paceline::virtual_time {

void DeviationMeter::add(std::span<const float> used, std::span<const float> committed_to,
                         std::span<const float> gradient, const Pulled& pulled, double rate) {
  double apart = 0, norm = 0;
  for (const ps::Layout::Run& run : layout_.runs()) {
    if (run.kind != ps::TensorKind::kParameter) continue;
    for (auto i = static_cast<std::size_t>(run.begin); i < static_cast<std::size_t>(run.end); ++i) {
      const double difference = static_cast<double>(used[i]) - static_cast<double>(committed_to[i]);
      apart += difference * difference;
      norm += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
  }
  apart = std::sqrt(apart);
  // The rate of all that was missed is at most the larger end's, as schedules go up and then down.
  const double bound = std::max(pulled.rate, rate) / (1 - momentum_) * (rounds_ - pulled.rounds);
  ++count_;
  gradient_ = std::max(gradient_, std::sqrt(norm));
  sum_ += apart;
  most_ = std::max(most_, apart);
  bound_sum_ += bound;
  bound_most_ = std::max(bound_most_, bound);
}

void DeviationMeter::committed(double fraction, double rate) {
  rounds_ += fraction;
  rate_ = rate;
}

std::optional<report::UsedWeights> DeviationMeter::measured() const {
  if (count_ == 0 || !(gradient_ > 0) || !std::isfinite(gradient_)) return std::nullopt;
  const auto count = static_cast<double>(count_);
  return report::UsedWeights{.gradient = gradient_,
                             .mean = sum_ / count / gradient_,
                             .most = most_ / gradient_,
                             .mean_bound = bound_sum_ / count,
                             .most_bound = bound_most_};
}

}  // namespace paceline::virtual_time

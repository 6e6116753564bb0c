// The recent level of a quantity: the newest observation counts a fifth, and the first one fully. Pure.
#pragma once

#include <optional>

namespace paceline::control {

class MovingAverage {
 public:
  void add(double observed) { value_ = value_ ? *value_ + kNewest * (observed - *value_) : observed; }
  // `otherwise` before the first observation.
  double value_or(double otherwise) const { return value_.value_or(otherwise); }

 private:
  static constexpr double kNewest = 0.2;
  std::optional<double> value_;
};

}  // namespace paceline::control

// The standard error of the mean of a few numbers, which tables show behind "±". Pure.
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

namespace paceline::report {

// Requires: at least one number.
inline double mean_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

// The rounding error of computed numbers that should be equal, as a share of their mean.
inline constexpr double kRounding = 1e-12;

// The standard error of the mean; 0 if the numbers differ by rounding alone. Requires: at least two numbers.
inline double standard_error(const std::vector<double>& numbers) {
  const double middle = mean_of(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - middle) * (number - middle);
  const auto count = static_cast<double>(numbers.size());
  const double error = std::sqrt(squares / (count - 1) / count);
  return error <= kRounding * std::abs(middle) ? 0 : error;
}

}  // namespace paceline::report

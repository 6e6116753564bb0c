// How far the mean of a few numbers may be off, as tables say behind "±". Pure.
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

namespace paceline::report {

// Requires: a number.
inline double mean_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

// What equal numbers differ by once they were computed, of their mean.
inline constexpr double kRounding = 1e-12;

// Of the mean. Requires: at least two numbers. 0 where they differ by rounding alone.
inline double standard_error(const std::vector<double>& numbers) {
  const double middle = mean_of(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - middle) * (number - middle);
  const auto count = static_cast<double>(numbers.size());
  const double error = std::sqrt(squares / (count - 1) / count);
  return error <= kRounding * std::abs(middle) ? 0 : error;
}

}  // namespace paceline::report

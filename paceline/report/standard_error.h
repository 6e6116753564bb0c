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

// Of the mean. Requires: at least two numbers.
inline double standard_error(const std::vector<double>& numbers) {
  const double middle = mean_of(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - middle) * (number - middle);
  const auto count = static_cast<double>(numbers.size());
  return std::sqrt(squares / (count - 1) / count);
}

}  // namespace paceline::report

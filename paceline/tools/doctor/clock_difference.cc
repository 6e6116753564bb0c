#include "paceline/tools/doctor/clock_difference.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::doctor {

ClockFacts clock_difference(std::span<const ClockRound> rounds) {
  PACELINE_CHECK(!rounds.empty(), "a clock was never asked");
  const auto took = [](const ClockRound& round) { return round.answered_ns - round.asked_ns; };
  const ClockRound& best = *std::min_element(
      rounds.begin(), rounds.end(),
      [&](const ClockRound& one, const ClockRound& other) { return took(one) < took(other); });
  const double half_ns = static_cast<double>(took(best)) / 2;
  return {(static_cast<double>(best.theirs_ns - best.asked_ns) - half_ns) / 1e9, half_ns / 1e9};
}

}  // namespace paceline::doctor

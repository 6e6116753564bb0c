// How far another host's clock is ahead of this one's, from questions and answers (Cristian 1989). Pure.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/tools/doctor/facts.h"

namespace paceline::doctor {

// One question: this host's clock when it was asked and when it was answered, and the other clock's reading
// in between.
struct ClockRound {
  std::int64_t asked_ns = 0;
  std::int64_t theirs_ns = 0;
  std::int64_t answered_ns = 0;
};

// The difference by the quickest round, which is the most exact: the other clock was read at some moment of
// it. Requires: at least one round.
ClockFacts clock_difference(std::span<const ClockRound> rounds);

}  // namespace paceline::doctor

// How far another host's clock is ahead of this one's, from questions and answers (Cristian 1989). Pure.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/doctor/facts.h"

namespace paceline::doctor {

// One question: when it was asked and answered by this host's clock, and what the other's said in between.
struct ClockRound {
  std::int64_t asked_ns = 0;
  std::int64_t theirs_ns = 0;
  std::int64_t answered_ns = 0;
};

// By the quickest of the rounds, which says most: the other clock was read at some moment of it. Requires:
// one round at least.
ClockFacts clock_difference(std::span<const ClockRound> rounds);

}  // namespace paceline::doctor

// The phases of a host's part in a run, as its launcher sees them, and every way from one to another. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "paceline/base/transitions.h"

namespace paceline::supervisor {

enum class Phase {
  kStarting,   // the coordinator starts, if it is on this host
  kGathering,  // the processes of this host are started, and the run does not train yet
  kTraining,   // the run trains, or comes back to it
  kEnding,     // the job is over; programs here may do work of their own after it
  kOver,       // there is an outcome
};
inline constexpr int kPhases = 5;

// All there are, in the order of the phases.
std::span<const Transition<Phase>> transitions();
bool may_follow(Phase from, Phase to);
std::string_view name_of(Phase phase);
// All transitions, as a state diagram for Mermaid.
std::string diagram();

}  // namespace paceline::supervisor

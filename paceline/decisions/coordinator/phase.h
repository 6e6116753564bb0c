// The phases of an attempt at a job, and every way from one to another. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "paceline/base/transitions.h"

namespace paceline::coordinator {

enum class Phase {
  kStarting,       // processes come, servers load weights, workers take their roles
  kTraining,       // the Controller has begun to release
  kSavingCopies,   // a server is lost: the others write the last version that all of them have
  kFinishing,      // the last evaluation and the last checkpoint
  kDisconnecting,  // all were told how the run ended, and go
  kWentBack,       // this attempt is lost: another one goes on from the newest checkpoint
  kOver,           // all are gone
};
inline constexpr int kPhases = 7;

// All there are, in the order of the phases.
std::span<const Transition<Phase>> transitions();
bool may_follow(Phase from, Phase to);
std::string_view name_of(Phase phase);
// All transitions, as a state diagram for Mermaid.
std::string diagram();

}  // namespace paceline::coordinator

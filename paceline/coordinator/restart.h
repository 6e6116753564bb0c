// What an attempt at a job knows about earlier attempts.
#pragma once

#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/control/controller_state.h"

namespace paceline::coordinator {

// Where a run goes on from.
struct Restart {
  control::ControllerState state;
  Duration elapsed{0};
  std::string checkpoint_dir;
  std::vector<std::string> files{};  // of shards, in it
};

// An earlier attempt that ended when its coordinator was killed. It did not report its losses, and if weights
// are kept twice, its servers may still have the lost versions.
struct CutShortAttempt {
  Version newest;  // of its commits
  std::vector<HostRank>
      without;  // hosts that it did without, in order: in how many parts its servers have it
};

// The same, as the next attempt's servers hear of it.
struct CutShort {
  std::string attempt;  // as servers call it
  Version newest;       // of the commits that it recorded
};

}  // namespace paceline::coordinator

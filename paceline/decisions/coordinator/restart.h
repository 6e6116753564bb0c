// The knowledge of an attempt at a job about earlier attempts.
#pragma once

#include <string>
#include <vector>

#include "paceline/base/data_order.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/controller_state.h"
#include "paceline/decisions/coordinator/shard_lengths.h"

namespace paceline::coordinator {

// The checkpoint from which a run goes on.
struct Restart {
  control::ControllerState state;
  Duration elapsed{0};
  std::string checkpoint_dir;
  DataOrder data_order{};                     // recorded with the run
  std::vector<std::string> files{};           // files of the shards in `checkpoint_dir`
  std::vector<ShardRecords> shard_lengths{};  // the lengths that the run had learnt
};

// An earlier attempt that ended when its coordinator was killed. It did not report its losses, and if weights
// are kept twice, its servers may still have the lost versions.
struct CutShortAttempt {
  Version newest;  // the newest of its commits
  // Hosts that it did without, in order: they determine in how many parts its servers have the version.
  std::vector<HostRank> without;
};

// The same, for the next attempt's servers.
struct CutShort {
  std::string attempt;  // its name among servers
  Version newest;       // the newest commit that it recorded
};

}  // namespace paceline::coordinator

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

// Whether an attempt that committed was cut short. `followed_from`: the newest version from which a later attempt began;
// `newest`: the newest checkpoint in this folder; 0 if there is none. A host that keeps a copy of the run has the journal a
// while before the checkpoint, and until then the losses that the journal reports are not those of its folder.
inline bool was_cut_short(bool reported_losses, Version followed_from, Version newest) {
  return !reported_losses || followed_from > newest;
}

// An earlier attempt that was cut short. If weights are kept twice, its servers may still have the lost versions.
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

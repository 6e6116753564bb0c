// The run's folder, on a disk that outlives processes: the journal as far as it is kept, and checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/control/controller_state.h"
#include "paceline/coordinator/restart.h"

namespace paceline::cluster_sim {

// What weights are made of: a number that no other commits, or commits in another order, come to.
using Content = std::uint64_t;

struct SavedCheckpoint {
  control::ControllerState state;
  Duration elapsed{0};
  std::map<int, Content> shards;  // that are written
  bool counts = false;
};

struct AttemptInJournal {
  std::int64_t number = 0;
  std::optional<Version> newest{};  // of its commits that the journal has
  bool says_what_was_lost = false;
};

struct RunFolder {
  std::vector<AttemptInJournal> attempts;
  std::map<std::string, SavedCheckpoint> checkpoints;  // by folder
  bool full = false;                                   // nothing can be written

  // The newest checkpoint that counts; null when there is none.
  const SavedCheckpoint* newest() const {
    const SavedCheckpoint* found = nullptr;
    for (const auto& [name, one] : checkpoints) {
      if (one.counts && (found == nullptr || one.state.version > found->state.version)) found = &one;
    }
    return found;
  }
};

}  // namespace paceline::cluster_sim

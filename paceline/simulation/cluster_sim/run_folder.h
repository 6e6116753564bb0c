// The run's folder, on a disk that outlives processes: the part of the journal that is kept, the checkpoints,
// and who leads the run. A loss of power loses everything that was written and not synced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/control/controller_state.h"
#include "paceline/decisions/coordinator/restart.h"
#include "paceline/simulation/cluster_sim/numbers.h"

namespace paceline::cluster_sim {

struct ShardFile {
  std::shared_ptr<const PartNumbers> numbers{};
  bool synced = false;
};

struct SavedCheckpoint {
  control::ControllerState state;
  Duration elapsed{0};
  int parts = 0;                    // the number of parts that it must have
  std::map<int, ShardFile> shards;  // the parts that are written
  bool counts = false;              // the checkpoint counts; the journal says so with a sync
};

struct AttemptInJournal {
  std::int64_t number = 0;
  std::string name{};
  std::vector<HostRank> without{};  // hosts
  Version from{};                   // the version that it began from
  std::optional<Version> newest{};  // the newest of its commits in the journal
  std::optional<Version> synced{};  // the newest of its commits in the part of the journal that the disk has
  bool trained = false;
  bool says_what_was_lost = false;
};

struct RunFolder {
  std::vector<AttemptInJournal> attempts;
  std::map<std::string, SavedCheckpoint> checkpoints;  // keyed by folder
  bool full = false;                                   // nothing can be written
  std::optional<int> lock;                             // the host whose coordinator has it
  std::optional<int> leader;                           // the host that wrote where the coordinator is
  std::optional<int> next_leader;                      // the host that keeps the run, if hosts share no disk
  std::optional<int> mark;                             // the number of the coordinator that left one
  int marks = 0, opened = 0;                           // numbers of marks and of checkpoints given out so far

  // The newest checkpoint that counts; null when there is none.
  const SavedCheckpoint* newest() const {
    const SavedCheckpoint* found = nullptr;
    for (const auto& [name, one] : checkpoints) {
      if (one.counts && (found == nullptr || one.state.version > found->state.version)) found = &one;
    }
    return found;
  }
  std::optional<Version> newest_version() const {
    const SavedCheckpoint* found = newest();
    if (found == nullptr) return std::nullopt;
    return found->state.version;
  }
  // The newest attempt that committed anything, if it was cut short; else null.
  const AttemptInJournal* cut_short() const {
    Version followed_from;
    for (auto one = attempts.rbegin(); one != attempts.rend(); ++one) {
      if (one->newest) {
        const Version newest = newest_version().value_or(Version(0));
        return coordinator::was_cut_short(one->says_what_was_lost, followed_from, newest) ? &*one : nullptr;
      }
      followed_from = std::max(followed_from, one->from);
    }
    return nullptr;
  }
  // The attempts that committed nothing since the last commit go on from this version after all.
  void go_on_from(Version version) {
    for (auto one = attempts.rbegin(); one != attempts.rend() && !one->newest; ++one) one->from = version;
  }
  void sync_journal() {
    for (AttemptInJournal& one : attempts) one.synced = one.newest;
  }
  void lose_power() {
    for (AttemptInJournal& one : attempts) one.newest = one.synced;
    for (auto& [name, checkpoint] : checkpoints)
      std::erase_if(checkpoint.shards, [](const auto& shard) { return !shard.second.synced; });
  }
};

}  // namespace paceline::cluster_sim

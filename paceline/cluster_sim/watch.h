// Holds a whole run, over all its attempts, to what the project promises. Knows nothing of how it is kept.
//
// - What was committed is there: a shard's content at a version is what the commits up to it make, in their
// order,
//   each once; wherever it is (published, kept, in a checkpoint).
// - Nothing that anybody saw is lost, where each shard has two copies and no two of its holders died at once.
// - A checkpoint that counts is whole.
// - Each sample is committed once (control::Observer, which each attempt has).
// - Once nothing goes wrong any more, the run ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "paceline/cluster_sim/run_folder.h"
#include "paceline/cluster_sim/world.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::cluster_sim {

inline constexpr Content kFirstContent = 1;
// What a commit makes of the version before.
Content after_commit(Content before, const wire::Apply& commit);

class Watch {
 public:
  explicit Watch(World& world, int shards) : world_(world), shards_(shards) {}

  // An attempt goes on from this checkpoint; null: from the start.
  void goes_on_from(const SavedCheckpoint* checkpoint);
  void commits(const wire::Apply& commit);
  // Somebody read it.
  void seen(Version version) {
    if (version > seen_) seen_ = version;
  }
  // A server's part of it.
  void is_there(const std::string& where, Version version, Content content);
  void counts(const SavedCheckpoint& checkpoint);
  // A server died, or its disk did; what it alone had may be lost.
  void may_lose() { may_lose_ = true; }
  // The run trains again from that version; `twice`: nothing that was seen may be lost.
  void trains_from(Version version, bool twice);
  void is_whole_again() { may_lose_ = false; }

 private:
  World& world_;
  const int shards_;
  std::map<Version, Content> line_;
  Version seen_;
  bool may_lose_ = false;
};

}  // namespace paceline::cluster_sim

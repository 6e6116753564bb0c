// Holds a whole run, over all its attempts, to what the project promises. Knows nothing of how it is kept.
//
// - What was committed is there: a shard's content at a version is what the commits up to it make, in their
//   order, each once; wherever it is (published, kept, in a checkpoint).
// - Nothing that anybody saw is lost, where each shard has two copies and no two of its holders died at once.
// - A checkpoint that counts is whole, and the journal has what led to it, even after the power was lost.
// - Each sample is committed once (control::Observer, which each attempt has).
// - No two coordinators lead the run.
// - Once nothing goes wrong any more, the run ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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
  explicit Watch(World& world) : world_(world) {}

  // `alone`: nobody else may, whatever happens.
  void leads(int host, bool alone);
  void leads_no_more(int host) { leaders_.erase(host); }
  // This attempt goes on from a checkpoint; null: from the start. `before`: the attempt before it, empty
  // where there is none. `recorded`: the newest commit in the journal.
  void goes_on_from(const std::string& attempt, const std::string& before, const SavedCheckpoint* checkpoint,
                    std::optional<Version> recorded);
  void commits(const std::string& attempt, const wire::Apply& commit);
  // Somebody read it.
  void seen(Version version) {
    if (version > seen_) seen_ = version;
  }
  // A server's part of it, in that attempt: orders of one before may come late to a host that was given up.
  void is_there(const std::string& attempt, const std::string& where, Version version, Content content);
  void counts(const std::string& attempt, const SavedCheckpoint& checkpoint);
  // What was seen may be lost with what happens now, until the run trains again.
  void may_lose() { may_lose_ = true; }
  // The run trains again from that version; `twice`: nothing that was seen may be lost.
  void trains_from(Version version, bool twice);
  // Two parts of the hosts go on, each without the other: what one has seen the other may lose.
  void splits() { split_ = true; }

 private:
  void is_whole(const std::string& attempt, const SavedCheckpoint& checkpoint);

  World& world_;
  std::map<std::string, std::map<Version, Content>> lines_;  // by attempt
  std::set<int> leaders_;
  Version seen_;
  bool may_lose_ = false;
  bool split_ = false;
};

}  // namespace paceline::cluster_sim

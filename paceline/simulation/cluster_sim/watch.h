// Checks a whole run, over all its attempts, against what the project promises. Does not depend on how the
// promises are kept.
//
// - What was committed is there: the numbers of a shard at a version are the result of the commits up to it,
//   in order, each once; wherever it is (published, kept, in a checkpoint).
// - Nothing that anybody saw is lost, if each shard has two copies and no two of its holders died at once.
// - A checkpoint that counts is whole, and the journal has what led to it, even after the power was lost.
// - Each sample is committed once: in one attempt (control::Observer), and in all versions that led to one of a later
//   attempt. A checkpoint's state names the samples that are committed in its version.
// - No two coordinators lead the run.
// - Once nothing goes wrong any more, the run ends.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "paceline/base/lease.h"
#include "paceline/decisions/control/sample_ledger.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/simulation/cluster_sim/run_folder.h"
#include "paceline/simulation/cluster_sim/scenario.h"
#include "paceline/simulation/cluster_sim/world.h"

namespace paceline::cluster_sim {

class Watch {
 public:
  Watch(World& world, const Scenario& scenario)
      : world_(world),
        momentum_(scenario.job.optimizer.momentum),
        samples_an_epoch_(scenario.samples_an_epoch) {}

  // `alone`: no other host may lead at the same time.
  void leads(int host, bool alone);
  void leads_no_more(int host) { leaders_.erase(host); }
  // This attempt goes on from a checkpoint; null: from the start. `before`: the attempt before, or empty.
  // `recorded`: the newest commit in the journal.
  void goes_on_from(const std::string& attempt, const std::string& before, const SavedCheckpoint* checkpoint,
                    std::optional<Version> recorded);
  // A replica may train on these samples in that iteration.
  void leases(const std::string& attempt, ReplicaId replica, paceline::Clock clock, const Lease& lease);
  void commits(const std::string& attempt, const wire::Apply& commit);
  // Servers may make this commit before it is ordered; the last one that they were told of.
  void expects(const std::string& attempt, const wire::Apply& commit);
  // A process read this version.
  void seen(Version version) {
    if (version > seen_) seen_ = version;
  }
  // A server's part of that version, in that attempt, from `offset` of the model on. An order of an earlier attempt may
  // reach a host late, after it was given up.
  void is_there(const std::string& attempt, const std::string& where, Version version, std::int64_t offset,
                std::span<const float> weights);
  void counts(const std::string& attempt, const SavedCheckpoint& checkpoint);
  // The current fault may lose versions that were seen, until the run trains again.
  void may_lose() { may_lose_ = true; }
  // The run trains again from that version. `twice`: no version that was seen may be lost.
  void trains_from(Version version, bool twice);
  // Versions that a server made before they were ordered.
  std::int64_t made_early() const { return made_early_; }
  // Two parts of the hosts go on, each without the other: versions that one part has seen may be lost by the
  // other.
  void splits() { split_ = true; }

 private:
  using Samples = std::bitset<kSamples * kMostEpochs>;  // over all epochs
  // A version: its numbers, and the samples that are committed in it.
  struct Made {
    Content content;
    Samples samples;
  };
  // A commit that is not ordered yet.
  struct Expected {
    wire::Apply commit;
    Content content;
    bool made = false;  // a server has it
  };
  // Counts an expected commit of an earlier version as ordered, if a server has made it.
  void commit_early(const std::string& attempt, Version before);
  static Samples committed(const control::SampleLedger::Saved& ledger);
  void is_whole(const std::string& attempt, const SavedCheckpoint& checkpoint);

  World& world_;
  const double momentum_;
  const std::int64_t samples_an_epoch_;
  std::map<std::string, std::map<Version, Made>> lines_;  // keyed by attempt
  std::map<std::string, Expected> expected_;              // keyed by attempt
  // Keyed by attempt, and by replica and clock.
  std::map<std::string, std::map<std::pair<std::int32_t, std::int64_t>, Samples>> leases_;
  std::set<int> leaders_;
  Version seen_;
  std::int64_t made_early_ = 0;
  bool may_lose_ = false;
  bool split_ = false;
};

}  // namespace paceline::cluster_sim

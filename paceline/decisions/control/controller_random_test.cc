// Random runs under every policy: uneven and jittery speeds, uneven batches, joins and departures at any
// moment, and whole runs that die and are restored. The Observer must never complain, and at the end every
// sample of every epoch must have been committed exactly once.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/control/testing/little_cluster.h"

namespace paceline::control {
namespace {

using control::testing::LittleCluster;
using control::testing::SampleLog;

constexpr const char* kSpecs[] = {"bsp",
                                  "asp",
                                  "ssp:0",
                                  "ssp:1",
                                  "ssp:3",
                                  "dssp:0-2",
                                  "dssp:3-15",
                                  "dssp:1-4:printed",
                                  "elastic-bsp:1",
                                  "elastic-bsp:4",
                                  "backup:1",
                                  "backup:3",
                                  "groups:2+1:asp",
                                  "groups:1+2+2:ssp:1",
                                  "groups:2+2:bsp",
                                  "groups:1+2:dssp:0-2",
                                  "groups:2+2:elastic-bsp:4",
                                  "groups:1+2+1:backup:1"};

struct Met {
  int lives = 0;
  int parks = 0;
  int unparks = 0;
  int discards = 0;
  int foreseen = 0;
  std::int64_t ahead = 0;
  std::int64_t scraps = 0;
};

ControllerConfig random_config(Rng& rng) {
  ControllerConfig config;
  config.dataset_size = 1 + static_cast<std::int64_t>(rng.below(80));
  config.start_replicas = 1 + static_cast<std::int64_t>(rng.below(4));
  config.scale = rng.below(2) == 0 ? CommitScale::kSamples : CommitScale::kUpdate;
  config.staleness_damping = rng.below(2) == 0 ? 0.0 : 0.3;
  config.evaluate_every = static_cast<std::int64_t>(rng.below(40));
  config.checkpoint_every = static_cast<std::int64_t>(rng.below(30));
  config.look_ahead = rng.below(2) == 0;
  config.uneven_data = rng.below(2) == 0;
  config.ahead = rng.below(2) == 0 ? 0 : static_cast<std::int64_t>(rng.below(6));
  return config;
}

// A run from its start to its end, over as many lives as it takes.
class WholeRun {
 public:
  WholeRun(const std::string& spec, std::uint64_t seed)
      : spec_(spec), seed_(seed), rng_(mix_seed({seed, 1})) {
    config_ = random_config(rng_);
    total_ = 1 + static_cast<std::int64_t>(rng_.below(300));
    config_.total_samples = rng_.below(4) == 0 ? kUnknownTotal : total_;
  }

  // Returns what went wrong; empty when nothing did.
  std::string complete(Met& met) {
    for (int life = 0; life < 30; ++life) {
      const std::string spec = spec_ == "any" ? kSpecs[rng_.below(std::size(kSpecs))] : spec_;
      LittleCluster cluster(config_, spec, mix_seed({seed_, 2, static_cast<std::uint64_t>(life)}), state_);
      cluster.data_end_at(total_);
      const bool may_die = life < 4;
      live(cluster, may_die);
      ++met.lives;
      met.parks += cluster.parks();
      met.unparks += cluster.unparks();
      met.discards += cluster.discards();
      met.foreseen += cluster.foreseen();
      for (const Release& release : cluster.releases()) {
        met.ahead += static_cast<std::int64_t>(release.ahead.size());
        met.scraps += release.lease.scrap() > 0 ? 1 : 0;
      }
      if (!cluster.broken().empty()) return fmt::format("life {}, {}", life, cluster.broken());
      remember(cluster);
      if (cluster.controller().committed_samples() == total_ && cluster.finished()) return end();
      if (!may_die) return fmt::format("life {} never ends", life);
    }
    return "too many lives";
  }

 private:
  void live(LittleCluster& cluster, bool may_die) {
    while (!cluster.finished() && cluster.broken().empty()) {
      const std::vector<ReplicaId> here = cluster.live();
      const std::uint64_t dice = rng_.below(100);
      const bool few =
          static_cast<std::int64_t>(here.size()) < std::min<std::int64_t>(config_.start_replicas, 2);
      if (here.empty() || few || dice < 3) {
        join(cluster);
      } else if (dice < (any_parked(cluster) ? 30 : 6)) {
        leave(cluster, here[rng_.below(here.size())]);
      } else if (may_die && dice < 7) {
        if (rng_.below(2) == 0) cluster.stop();
        return;
      } else if (!cluster.step()) {
        if (cluster.controller().started()) return;  // stuck: the caller says so
        join(cluster);
      }
    }
  }

  // Then departures matter most: what is left behind is for the parked ones.
  static bool any_parked(const LittleCluster& cluster) {
    const std::vector<ReplicaId> here = cluster.live();
    return std::any_of(here.begin(), here.end(), [&](ReplicaId replica) { return cluster.parked(replica); });
  }

  // In one of two cases its program cannot compute on as few samples as it has.
  void leave(LittleCluster& cluster, ReplicaId replica) {
    const std::int64_t least = 1 + static_cast<std::int64_t>(rng_.below(6));
    const bool tells = rng_.below(2) == 0 && cluster.controller().could_be_larger(replica, least);
    cluster.leave(replica, tells ? std::optional(least) : std::nullopt);
  }

  void join(LittleCluster& cluster) {
    cluster.join(fmt::format("w{}", rng_.below(6)), 1 + static_cast<std::int64_t>(rng_.below(9)),
                 std::chrono::milliseconds(100 + rng_.below(3000)), 0.1 * static_cast<double>(rng_.below(9)));
  }

  // Either the newest checkpoint survives, or the process could still save.
  void remember(LittleCluster& cluster) {
    std::optional<ControllerState> newest = state_;
    for (const CommitRecord& commit : cluster.log()) {
      if (commit.checkpoint) newest = commit.checkpoint;
    }
    state_ = rng_.below(2) == 0 || cluster.finished() ? cluster.controller().save() : newest;
    const Version version = state_ ? state_->version : Version(0);
    std::erase_if(log_, [&](const CommitRecord& commit) { return commit.version > version; });
    for (const CommitRecord& commit : cluster.log()) {
      if (commit.version <= version) log_.push_back(commit);
    }
  }

  std::string end() const {
    SampleLog books(config_.dataset_size, total_);
    Version expected(0);
    for (const CommitRecord& commit : log_) {
      books.add(commit);
      expected = expected.next();
      if (commit.version != expected) return "a hole in the log";
    }
    return books.all_once() ? "" : "not every sample was committed once";
  }

  std::string spec_;
  std::uint64_t seed_;
  Rng rng_;
  std::int64_t total_ = 0;  // how many samples there are, whether or not anybody knows it
  ControllerConfig config_;
  std::optional<ControllerState> state_;
  std::vector<CommitRecord> log_;
};

class RandomRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(RandomRuns, CommitEverySampleOnceAndKeepEveryPromise) {
  Met met;
  for (std::uint64_t seed = 0; seed < effort::part_of(3000); ++seed) {
    WholeRun run(GetParam(), seed);
    ASSERT_EQ(run.complete(met), "") << GetParam() << ", seed " << seed;
  }
  if (effort::kSanitized) return;
  // The runs must meet every situation that they are made for.
  EXPECT_GT(met.lives, 3500);
  EXPECT_GT(met.parks, 2000);
  EXPECT_GT(met.unparks, 100);
  EXPECT_GT(met.ahead, 1000);
  EXPECT_GT(met.scraps, 100);
  const std::string spec = GetParam();
  if (spec.find("groups") == std::string::npos && spec.find("elastic") == std::string::npos &&
      spec.find("backup") == std::string::npos) {
    EXPECT_GT(met.foreseen, 2000);
  }
  if (spec == "bsp" || spec == "groups:2+2:bsp") {
    EXPECT_GT(met.discards, 20);
  }
  if (spec.find("backup") != std::string::npos) {
    EXPECT_GT(met.discards, 2000);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomRuns, ::testing::ValuesIn(kSpecs));
// Every life of a run under a policy of its own: a run may be resumed with another.
INSTANTIATE_TEST_SUITE_P(PoliciesThatChange, RandomRuns, ::testing::Values("any"));

}  // namespace
}  // namespace paceline::control

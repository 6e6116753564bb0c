// Samples reserved ahead, seen from outside the Controller: every way that few replicas can be ready, leave
// and join; what a release says of iterations to come against the leases that come; and runs that nothing
// ahead may change.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/base/testing/every_choice.h"
#include "paceline/decisions/control/testing/little_cluster.h"

namespace paceline::control {
namespace {

using control::testing::LittleCluster;
using control::testing::SampleLog;
using paceline::testing::EveryChoice;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ControllerConfig config_of(std::int64_t dataset_size, std::int64_t total, std::int64_t start_replicas,
                           std::int64_t ahead) {
  ControllerConfig config;
  config.dataset_size = dataset_size;
  config.total_samples = total;
  config.start_replicas = start_replicas;
  config.ahead = ahead;
  return config;
}

bool meet(const Lease& a, const Lease& b) { return a.epoch == b.epoch && a.begin < b.end && b.begin < a.end; }

// A Controller whose replicas are ready when a test says so. It holds each lease to what was said before: of
// replicas with batches that stay as they are, the oldest that nobody else has leased.
class Told {
 public:
  Told(const ControllerConfig& config, const std::string& spec)
      : config_(config),
        controller_(config, policy::make_policy(policy::parse_policy(spec).value())),
        observer_(controller_.bounds(), config.dataset_size, config.total_samples),
        books_(config.dataset_size, config.total_samples) {}

  void join(std::int64_t batch) {
    const ReplicaId id(next_++);
    batches_[id] = batch;
    give(ReplicaJoined{id, fmt::format("w{}", id.value()), batch});
  }
  void leave(ReplicaId replica) {
    computing_.erase(replica);
    batches_.erase(replica);
    ahead_.erase(replica);
    give(ReplicaLeft{replica, ""});
  }
  void ready(ReplicaId replica) {
    const Release release = computing_.at(replica);
    computing_.erase(replica);
    give(ReplicaReady{replica, release.clock, release.version, Duration(1), 0});
  }

  std::vector<ReplicaId> computing() const {
    std::vector<ReplicaId> all;
    for (const auto& [replica, release] : computing_) all.push_back(replica);
    return all;
  }
  std::vector<ReplicaId> here() const {
    std::vector<ReplicaId> all;
    for (const auto& [replica, batch] : batches_) all.push_back(replica);
    return all;
  }
  bool finished() const { return finished_; }
  const std::vector<Lease>& ahead(int replica) const { return ahead_.at(ReplicaId(replica)); }
  bool all_once() const { return books_.all_once(); }
  const std::string& broken() const { return broken_; }
  std::size_t most_said() const { return most_said_; }
  int taken() const { return taken_; }

 private:
  void give(const decltype(Fact::what)& what) {
    const Fact fact{Time{}, what};
    std::vector<Order> orders;
    const absl::Status status = controller_.handle(fact, orders);
    if (!status.ok()) complain(status.ToString());
    if (const auto complaint = observer_.see(fact)) complain(*complaint);
    for (const Order& order : orders) {
      if (const auto complaint = observer_.see(order)) complain(*complaint);
      if (const auto* commit = std::get_if<CommitRecord>(&order)) books_.add(*commit);
      if (const auto* release = std::get_if<Release>(&order)) see_lease(*release);
      if (std::holds_alternative<Finish>(order)) finished_ = true;
    }
    // A release says what is reserved at the end of the fact.
    for (const Order& order : orders) {
      if (const auto* release = std::get_if<Release>(&order)) see_ahead(*release);
    }
    if (!finished_ && computing_.empty() && !batches_.empty() && controller_.started())
      complain("everybody waits for ever");
  }
  void see_lease(const Release& release) {
    std::vector<Lease>& mine = ahead_[release.replica];
    if (!mine.empty() && !(mine.front() == release.lease)) complain("another lease than was reserved");
    if (release.lease.size() > batches_.at(release.replica)) complain("too large a lease");
    for (auto& [replica, list] : ahead_) {
      const bool others = replica != release.replica;
      const auto gone = std::erase_if(list, [&](const Lease& one) { return meet(one, release.lease); });
      taken_ += others ? static_cast<int>(gone) : 0;
    }
    computing_[release.replica] = release;
  }
  void see_ahead(const Release& release) {
    std::vector<Lease>& mine = ahead_[release.replica];
    if (static_cast<std::int64_t>(release.ahead.size()) > config_.ahead) complain("too much is reserved");
    // The order of reservations never changes; new ones come at the end.
    if (!std::equal(
            mine.begin(), mine.end(), release.ahead.begin(),
            release.ahead.begin() + static_cast<std::ptrdiff_t>(std::min(mine.size(), release.ahead.size()))))
      complain("what was reserved changed");
    mine = release.ahead;
    most_said_ = std::max(most_said_, mine.size());
  }
  void complain(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  const ControllerConfig config_;
  Controller controller_;
  Observer observer_;
  SampleLog books_;
  std::map<ReplicaId, std::int64_t> batches_;
  std::map<ReplicaId, Release> computing_;
  std::map<ReplicaId, std::vector<Lease>> ahead_;
  std::int32_t next_ = 0;
  bool finished_ = false;
  std::size_t most_said_ = 0;
  int taken_ = 0;
  std::string broken_;
};

struct Seen {
  std::size_t most_said = 0;
  std::int64_t taken = 0;
  std::int64_t paths = 0;
};

// Every order in which they can be ready; and once, at every point, any of them leaves or another one joins.
void every_way(const std::string& spec, std::int64_t replicas, std::int64_t total, std::int64_t ahead,
               Seen& seen) {
  for (EveryChoice choose; seen.paths < effort::kMostWays && choose.again();) {
    Told told(config_of(total - 3, total, replicas, ahead), spec);
    for (std::int64_t i = 0; i < replicas; ++i) told.join(1 + i / 2);
    bool changed = false;
    while (!told.finished() && told.broken().empty()) {
      const std::vector<ReplicaId> computing = told.computing();
      const std::vector<ReplicaId> here = told.here();
      const std::size_t leaves = changed ? 0 : here.size();
      const std::size_t chosen = choose.below(computing.size() + leaves + (changed ? 0 : 1));
      if (chosen < computing.size()) {
        told.ready(computing[chosen]);
      } else {
        changed = true;
        if (chosen < computing.size() + leaves) {
          told.leave(here[chosen - computing.size()]);
        } else {
          told.join(2);
        }
      }
    }
    ASSERT_EQ(told.broken(), "") << spec << ", " << ahead << " ahead, " << choose.path();
    ASSERT_TRUE(told.all_once()) << spec << ", " << ahead << " ahead, " << choose.path();
    seen.most_said = std::max(seen.most_said, told.most_said());
    seen.taken += told.taken();
    ++seen.paths;
  }
}

class EveryWay : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryWay, CommitsEachSampleOnceAndLeasesWhatItReserved) {
  for (const std::int64_t ahead : {1, 2, 3}) {
    Seen two;
    every_way(GetParam(), 2, 6 + ahead, ahead, two);
    Seen three;
    every_way(GetParam(), 3, 7, ahead, three);
    EXPECT_GT(two.paths, 20);
    EXPECT_GE(two.most_said, std::min<std::size_t>(static_cast<std::size_t>(ahead), 2)) << ahead;
    if (std::string(GetParam()) == "asp") {
      EXPECT_GT(two.taken + three.taken, 0) << ahead;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryWay, ::testing::Values("bsp", "asp", "ssp:1", "backup:1"));

// ---- What a release says ----

TEST(Ahead, AReleaseSaysWhatIsReservedForItsReplicaInTurns) {
  Told told(config_of(100, 100, 2, 2), "asp");
  told.join(2);
  told.join(3);
  EXPECT_THAT(told.ahead(0), ElementsAre(Lease{0, 5, 7}, Lease{0, 10, 12}));
  EXPECT_THAT(told.ahead(1), ElementsAre(Lease{0, 7, 10}, Lease{0, 12, 15}));
  told.ready(ReplicaId(0));
  EXPECT_THAT(told.ahead(0), ElementsAre(Lease{0, 10, 12}, Lease{0, 15, 17}));
  told.leave(ReplicaId(1));
  told.ready(ReplicaId(0));
  EXPECT_THAT(told.ahead(0), ElementsAre(Lease{0, 15, 17}, Lease{0, 2, 4})) << "what went back goes first";
  EXPECT_EQ(told.broken(), "");
}

TEST(Ahead, NearTheEndFewerAreReserved) {
  Told told(config_of(14, 14, 1, 3), "asp");
  told.join(2);
  EXPECT_EQ(told.ahead(0).size(), 3u) << "12 are left";
  told.ready(ReplicaId(0));
  EXPECT_EQ(told.ahead(0).size(), 2u) << "no more than half of 10";
  told.ready(ReplicaId(0));
  EXPECT_EQ(told.ahead(0).size(), 2u);
  told.ready(ReplicaId(0));
  EXPECT_EQ(told.ahead(0).size(), 1u);
  told.ready(ReplicaId(0));
  EXPECT_EQ(told.ahead(0).size(), 1u);
  told.ready(ReplicaId(0));
  EXPECT_THAT(told.ahead(0), IsEmpty());
  EXPECT_EQ(told.broken(), "");
}

TEST(Ahead, NothingIsReservedWhereNothingIsAskedFor) {
  Told told(config_of(100, 100, 1, 0), "asp");
  told.join(2);
  EXPECT_THAT(told.ahead(0), IsEmpty());
}

// One whose iterations take for ever has reserved the most; the others take it all before one of them is
// parked.
TEST(Ahead, NobodyHoldsTheTail) {
  for (const std::int64_t ahead : {1, 3, 16}) {
    Told told(config_of(400, 400, 3, ahead), "asp");
    for (int i = 0; i < 3; ++i) told.join(2);
    while (told.computing().size() == 3) {
      told.ready(ReplicaId(0));
      if (told.computing().size() == 3) told.ready(ReplicaId(1));
    }
    while (told.computing().size() > 1) told.ready(told.computing().front());
    EXPECT_THAT(told.computing(), ElementsAre(ReplicaId(2)));
    EXPECT_THAT(told.ahead(2), IsEmpty()) << "all that is left to do is its iteration";
    EXPECT_EQ(told.taken(), ahead);
    told.ready(ReplicaId(2));
    EXPECT_TRUE(told.finished());
    EXPECT_TRUE(told.all_once());
    EXPECT_EQ(told.broken(), "");
  }
}

// ---- Runs that nothing ahead may change ----

constexpr std::int64_t kAheadDataset = 173;

ControllerConfig long_job(std::int64_t ahead, std::uint64_t seed) {
  ControllerConfig config = config_of(kAheadDataset, 500 + static_cast<std::int64_t>(seed % 37), 4, ahead);
  config.checkpoint_every = 60;
  config.evaluate_every = 100;
  return config;
}

std::vector<CommitRecord> log_of(const std::string& spec, std::int64_t ahead, std::uint64_t seed,
                                 const std::optional<ControllerState>& start = std::nullopt) {
  LittleCluster cluster(long_job(ahead, seed), spec, seed, start);
  for (int i = 0; i < 4; ++i)
    cluster.join(fmt::format("w{}", i), 2 + static_cast<std::int64_t>((seed + 5 * i) % 7),
                 std::chrono::milliseconds(100 + 150 * i), 0.4);
  cluster.run_until_finished();
  EXPECT_EQ(cluster.broken(), "");
  EXPECT_TRUE(cluster.finished());
  return cluster.log();
}

TEST(Ahead, ABulkSynchronousRunIsTheSameCommitByCommit) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<CommitRecord> log = log_of("bsp", 0, seed);
    for (const std::int64_t ahead : {1, 2, 5, 40}) EXPECT_EQ(log_of("bsp", ahead, seed), log) << seed;
  }
}

TEST(Ahead, ABulkSynchronousRunThatIsResumedGoesOnAsItWouldHave) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<CommitRecord> log = log_of("bsp", 3, seed);
    for (std::size_t i = 0; i + 1 < log.size(); ++i) {
      if (!log[i].checkpoint) continue;
      const std::vector<CommitRecord> rest(log.begin() + static_cast<std::ptrdiff_t>(i) + 1, log.end());
      EXPECT_EQ(log_of("bsp", 3, seed, log[i].checkpoint), rest) << "seed " << seed << ", commit " << i;
    }
  }
}

TEST(Ahead, UnderOtherPoliciesEachSampleIsCommittedOnceAsWell) {
  for (const char* spec : {"asp", "ssp:2", "dssp:0-3", "elastic-bsp:4", "backup:1"}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      for (const std::int64_t ahead : {0, 1, 4, 16}) {
        SampleLog books(kAheadDataset, long_job(0, seed).total_samples);
        for (const CommitRecord& commit : log_of(spec, ahead, seed)) books.add(commit);
        EXPECT_TRUE(books.all_once()) << spec << ", seed " << seed << ", " << ahead << " ahead";
      }
    }
  }
}

TEST(Ahead, OneThatStepsByItselfHasAllItsStepsReserved) {
  Controller controller(config_of(1000, 1000, 1, 2),
                        policy::make_policy(*policy::parse_policy("local-sgd:3")));
  std::vector<Order> orders;
  ASSERT_TRUE(controller.handle({Time{}, ReplicaJoined{ReplicaId(0), "w0", 4}}, orders).ok());
  ASSERT_EQ(orders.size(), 1u);
  const Release& release = std::get<Release>(orders.front());
  EXPECT_EQ(release.lease, (Lease{0, 0, 12}));
  EXPECT_EQ(release.steps, 3);
  EXPECT_THAT(release.ahead, ElementsAre(Lease{0, 12, 24}, Lease{0, 24, 36}));
}

}  // namespace
}  // namespace paceline::control

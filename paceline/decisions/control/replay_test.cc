#include "paceline/decisions/control/replay.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/control/testing/little_cluster.h"
#include "paceline/decisions/control/to_string.h"

namespace paceline::control {
namespace {

using control::testing::LittleCluster;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

using Recorded = std::variant<Fact, std::pair<Time, Order>>;
using Recording = std::vector<Recorded>;

class Recorder final : public RunListener {
 public:
  void on_fact(const Fact& fact) override { recording.emplace_back(fact); }
  void on_order(Time at, const Order& order) override { recording.emplace_back(std::pair(at, order)); }
  void on_evaluated(const Evaluated&) override {}
  Recording recording;
};

ControllerConfig config(std::int64_t ahead = 0) {
  ControllerConfig config;
  config.ahead = ahead;
  config.dataset_size = 60;
  config.total_samples = 150;
  config.start_replicas = 3;
  config.checkpoint_every = 40;
  config.staleness_damping = 0.3;
  config.look_ahead = true;
  return config;
}

// A run of three replicas, one that comes later and one that goes.
Recording record(const std::string& spec, std::uint64_t seed,
                 const std::optional<ControllerState>& start = std::nullopt, std::int64_t ahead = 0) {
  Recorder recorder;
  LittleCluster cluster(config(ahead), spec, seed, start, {&recorder});
  for (int i = 0; i < 3; ++i) {
    cluster.join(fmt::format("w{}", i), 3 + i, std::chrono::milliseconds(100 + 170 * i), 0.3);
  }
  for (int i = 0; i < 7; ++i) cluster.step();
  cluster.join("w3", 2, std::chrono::milliseconds(300), 0.3);
  for (int i = 0; i < 4; ++i) cluster.step();
  cluster.leave(ReplicaId(1));
  cluster.run_until_finished();
  EXPECT_EQ(cluster.broken(), "");
  return recorder.recording;
}

std::unique_ptr<Replay> replay(const Recording& recording, const std::string& spec,
                               const std::optional<ControllerState>& start = std::nullopt,
                               std::int64_t ahead = 0) {
  auto replay = Replay::make(config(ahead), policy::make_policy(*policy::parse_policy(spec)), start);
  EXPECT_TRUE(replay.ok()) << replay.status();
  for (const Recorded& one : recording) {
    if (const auto* fact = std::get_if<Fact>(&one)) {
      (*replay)->on_fact(*fact);
    } else {
      const auto& [at, order] = std::get<std::pair<Time, Order>>(one);
      (*replay)->on_order(at, order);
    }
  }
  return *std::move(replay);
}

std::int64_t facts_in(const Recording& recording) {
  return std::count_if(recording.begin(), recording.end(),
                       [](const Recorded& one) { return std::holds_alternative<Fact>(one); });
}

// The `skip`-th order of this kind, to be changed.
template <class Kind>
Kind& find(Recording& recording, int skip) {
  for (Recorded& one : recording) {
    auto* order = std::get_if<std::pair<Time, Order>>(&one);
    if (order == nullptr) continue;
    if (auto* found = std::get_if<Kind>(&order->second); found != nullptr && skip-- == 0) return *found;
  }
  throw std::out_of_range("no such order");
}

constexpr const char* kSpecs[] = {"bsp", "asp", "ssp:1", "dssp:1-4"};

TEST(Replay, TheSameFactsGiveTheSameOrders) {
  for (const char* spec : kSpecs) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Recording recording = record(spec, seed);
      const auto replayed = replay(recording, spec);
      EXPECT_EQ(replayed->difference(), std::nullopt) << spec << ", seed " << seed;
      EXPECT_EQ(replayed->facts(), facts_in(recording));
      EXPECT_EQ(replayed->facts() + replayed->orders(), static_cast<std::int64_t>(recording.size()));
    }
  }
}

TEST(Replay, OfARestoredRunStartsWithItsState) {
  Recording recording = record("ssp:1", 1);
  int commits = 0;
  while (!find<CommitRecord>(recording, commits).checkpoint) ++commits;
  const ControllerState start = *find<CommitRecord>(recording, commits).checkpoint;
  recording = record("ssp:1", 2, start);
  EXPECT_EQ(replay(recording, "ssp:1", start)->difference(), std::nullopt);
  EXPECT_NE(replay(recording, "ssp:1")->difference(), std::nullopt);
}

Recording without_ahead(Recording recording) {
  for (Recorded& one : recording) {
    auto* order = std::get_if<std::pair<Time, Order>>(&one);
    if (order == nullptr) continue;
    if (auto* release = std::get_if<Release>(&order->second)) release->ahead.clear();
  }
  return recording;
}

TEST(Replay, HoldsWhatIsReservedAheadToTheControllerWhereTheRecordingHasIt) {
  for (const char* spec : kSpecs) {
    for (const std::int64_t ahead : {1, 3, 8}) {
      Recording recording = record(spec, 9, std::nullopt, ahead);
      EXPECT_EQ(replay(recording, spec, std::nullopt, ahead)->difference(), std::nullopt) << spec;
      const Recording without = without_ahead(recording);
      EXPECT_EQ(replay(without, spec, std::nullopt, ahead)->difference(), std::nullopt) << spec;
      find<Release>(recording, 1).ahead.front().end += 1;
      EXPECT_THAT(replay(recording, spec, std::nullopt, ahead)->difference(),
                  Optional(HasSubstr(", then samples ")))
          << spec;
    }
  }
  // Leases come in another order, which a journal does tell.
  EXPECT_NE(replay(without_ahead(record("asp", 9, std::nullopt, 3)), "asp", std::nullopt, 2)->difference(),
            std::nullopt);
}

TEST(Replay, RefusesAStateOfAnotherJob) {
  ControllerState start;
  start.ledger.next = 1000;
  EXPECT_EQ(Replay::make(config(), policy::make_policy(*policy::parse_policy("bsp")), start).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Replay, ARecordingMayEndAnywhere) {
  const Recording recording = record("bsp", 3);
  for (std::size_t length = 0; length < recording.size(); ++length) {
    const Recording part(recording.begin(), recording.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(replay(part, "bsp")->difference(), std::nullopt) << "the first " << length;
  }
}

TEST(Replay, AMissingEventIsADifference) {
  const Recording recording = record("dssp:1-4", 4);
  for (std::size_t missing = 0; missing + 8 < recording.size(); ++missing) {
    Recording without = recording;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(missing));
    EXPECT_NE(replay(without, "dssp:1-4")->difference(), std::nullopt) << "without " << missing;
  }
}

TEST(Replay, NamesAnOrderThatWasChanged) {
  Recording recording = record("asp", 5);
  find<Release>(recording, 4).clock = Clock(77);
  EXPECT_THAT(
      replay(recording, "asp")->difference(),
      Optional(AllOf(StartsWith("fact 5, at 0."), HasSubstr("is ready with iteration 2"),
                     HasSubstr("; recorded: release replica 0 for iteration 77 on version 2"),
                     HasSubstr("; the Controller orders: release replica 0 for iteration 3 on version 2"))));
}

TEST(Replay, SeesAChangeInTheLastBit) {
  Recording recording = record("asp", 6);
  double& weight = find<CommitRecord>(recording, 20).members[0].weight;
  weight = std::nextafter(weight, 2.0);
  EXPECT_THAT(replay(recording, "asp")->difference(), Optional(HasSubstr("recorded: commit 21")));
}

// The C library of another host.
TEST(Replay, TakesARateThatWasRoundedOtherwiseAndNoOtherOne) {
  for (const auto& [way, same] : {std::pair(1e-15, true), {1e-6, false}}) {
    Recording of_commit = record("asp", 6), of_release = of_commit;
    find<CommitRecord>(of_commit, 20).learning_rate += way;
    find<Release>(of_release, 20).learning_rate += way;
    EXPECT_EQ(replay(of_commit, "asp")->difference() == std::nullopt, same) << way;
    EXPECT_EQ(replay(of_release, "asp")->difference() == std::nullopt, same) << way;
  }
}

TEST(Replay, FindsAnotherPolicy) {
  for (const char* recorded : kSpecs) {
    for (const char* replayed : kSpecs) {
      if (recorded == replayed) continue;
      EXPECT_NE(replay(record(recorded, 7), replayed)->difference(), std::nullopt)
          << recorded << " replayed as " << replayed;
    }
  }
}

TEST(Replay, SaysWhatIsMissingAndWhatIsTooMuch) {
  const Fact joined{Time{}, ReplicaJoined{ReplicaId(0), "w0", 4}};
  const Fact unknown{Time{}, ReplicaLeft{ReplicaId(9), "gone"}};
  const std::pair<Time, Order> park(Time{}, Park{ReplicaId(0)});
  const std::pair<Time, Order> late(Time(std::chrono::seconds(1)), Park{ReplicaId(0)});
  EXPECT_EQ(replay({park}, "asp")->difference(), "before the first fact: recorded: park replica 0");
  EXPECT_EQ(replay({joined, park}, "asp")->difference(),
            "fact 1, at 0 s: replica 0 ('w0') joins with a batch of 4; recorded: park replica 0; "
            "the Controller orders: nothing more");
  EXPECT_EQ(replay({joined, late}, "asp")->difference(),
            "fact 1, at 0 s: replica 0 ('w0') joins with a batch of 4; recorded: at 1 s: park replica 0; "
            "the Controller orders: nothing at that time");
  EXPECT_EQ(
      replay({unknown}, "asp")->difference(),
      "fact 1, at 0 s: replica 9 leaves: gone; the Controller refuses it: replica 9 left and was not here");
}

TEST(Replay, ShowsOfLongOrdersThePartThatDiffers) {
  Recorder recorder;
  ControllerConfig many = config();
  many.start_replicas = 50;
  LittleCluster cluster(many, "bsp", 8, std::nullopt, {&recorder});
  for (int i = 0; i < 50; ++i) cluster.join(fmt::format("w{}", i), 1, std::chrono::milliseconds(100));
  cluster.run_until_finished();
  find<CommitRecord>(recorder.recording, 0).members[30].lease.end = 555;
  auto replay = Replay::make(many, policy::make_policy(*policy::parse_policy("bsp")), std::nullopt);
  for (const Recorded& one : recorder.recording) {
    if (const auto* fact = std::get_if<Fact>(&one)) (*replay)->on_fact(*fact);
    if (const auto* order = std::get_if<std::pair<Time, Order>>(&one))
      (*replay)->on_order(order->first, order->second);
  }
  ASSERT_NE((*replay)->difference(), std::nullopt);
  EXPECT_THAT(*(*replay)->difference(), HasSubstr("samples 30 to 555 of epoch 0"));
  EXPECT_THAT(*(*replay)->difference(), HasSubstr("samples 30 to 31 of epoch 0"));
  EXPECT_LT((*replay)->difference()->size(), 1200u);
}

}  // namespace
}  // namespace paceline::control

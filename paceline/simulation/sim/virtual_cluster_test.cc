#include "paceline/simulation/sim/virtual_cluster.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/simulation/sim/loader.h"
#include "paceline/simulation/sim/simulation.h"

namespace paceline::sim {
namespace {

// Everything a run said, as it came.
class Recorder final : public control::RunListener {
 public:
  void on_fact(const control::Fact& fact) override { facts.push_back(fact); }
  void on_order(Time, const control::Order& order) override { orders.push_back(order); }
  void on_evaluated(const control::Evaluated&) override {}

  template <class What>
  std::vector<std::pair<double, What>> of() const {
    std::vector<std::pair<double, What>> found;
    for (const control::Fact& fact : facts) {
      if (const auto* what = std::get_if<What>(&fact.what)) found.emplace_back(to_seconds(fact.at), *what);
    }
    return found;
  }

  std::vector<control::Fact> facts;
  std::vector<control::Order> orders;
};

struct Ran {
  Recorder recorder;
  absl::Status status;
  std::optional<std::string> broken;
  double end_s = 0;
};

Ran run(const std::string& text, const std::string& policy, Work* work = nullptr) {
  const Scenario scenario = parse_scenario(text, "s.toml").value();
  Ran ran;
  VirtualCluster cluster(
      scenario.cluster, controller_config(scenario),
      policy::make_policy(policy::parse_policy(policy).value()),
      {.listeners = {&ran.recorder}, .work = work, .stop_after_iterations = scenario.iterations});
  ran.status = cluster.run_until_over();
  ran.broken = cluster.broken();
  ran.end_s = to_seconds(cluster.now());
  return ran;
}

using control::ReplicaJoined;
using control::ReplicaLeft;
using control::ReplicaReady;

TEST(VirtualCluster, EndsWithTheLastIterationAskedFor) {
  const Ran ran = run("iterations = 7\n[[device]]\ncompute_ms = 100", "asp");
  EXPECT_TRUE(ran.status.ok());
  EXPECT_EQ(ran.recorder.of<ReplicaReady>().size(), 7u);
  EXPECT_NEAR(ran.end_s, 0.7, 1e-9);
}

// Four replicas of 0.1 s an iteration, equal to the nanosecond.
double rate_with_updates(const std::string& server, const std::string& policy) {
  const Scenario scenario =
      parse_scenario("iterations = 4000\n[server]\n" + server + "\n[[device]]\ncount = 4\ncompute_ms = 100",
                     "s.toml")
          .value();
  const Simulated simulated = simulate(scenario, policy::parse_policy(policy).value()).value();
  return static_cast<double>(simulated.summary.iterations) / simulated.summary.elapsed_s;
}

TEST(VirtualCluster, UpdatesTakeTimeAndQueue) {
  // A round: 0.1 s, and an update of four gradients.
  EXPECT_NEAR(rate_with_updates("update_ms = 20\ngradient_ms = 10", "bsp"), 4 / 0.15, 0.05);
  // An iteration: 0.1 s, and its own update of 0.02 s; four of them are less than the servers can make.
  EXPECT_NEAR(rate_with_updates("update_ms = 20\ngradient_ms = 10", "asp"), 4 / 0.12, 0.05);
  // The servers make ten a second.
  EXPECT_NEAR(rate_with_updates("update_ms = 100", "asp"), 10, 0.02);
  EXPECT_NEAR(rate_with_updates("update_ms = 100", "ssp:3"), 10, 0.02);
  EXPECT_NEAR(rate_with_updates("gradient_ms = 50", "asp"), 40, 0.1);
}

// CGP hears when updates are complete, and nothing else.
TEST(VirtualCluster, CgpLearnsWhatUpdatesTake) {
  const std::string dear = "update_ms = 100\ngradient_ms = 5";
  EXPECT_GT(rate_with_updates(dear, "cgp"), 1.5 * rate_with_updates(dear, "asp"));
  EXPECT_GT(rate_with_updates(dear, "cgp:patience=0"), 1.2 * rate_with_updates(dear, "asp"));
}

// Weights and directions are twice what is pushed, over links that are short of it. Replicas say how long
// they waited for them, and nothing else does.
TEST(VirtualCluster, CgpLearnsWhatWeightsTake) {
  const Scenario scenario =
      parse_scenario(
          "iterations = 4000\n[model]\nbytes = 5_500_000\n[link]\ngbps = 1.0\n[server]\ngbps = 1.0\n"
          "[[device]]\ncount = 3\ncompute_ms = 100\njitter = 0.05\n"
          "[[device]]\ncompute_ms = 150\njitter = 0.05\n"
          "[[device]]\ncompute_ms = 200\njitter = 0.05\n"
          "[[device]]\ncount = 2\ncompute_ms = 250\njitter = 0.05\n"
          "[[device]]\ncompute_ms = 400\njitter = 0.05\n",
          "s.toml")
          .value();
  const auto rate = [&](const char* policy) {
    control::ControllerConfig config = controller_config(scenario);
    config.look_ahead = true;
    VirtualCluster cluster(scenario.cluster, config,
                           policy::make_policy(policy::parse_policy(policy).value()),
                           {.stop_after_iterations = scenario.iterations});
    EXPECT_TRUE(cluster.run_until_over().ok());
    return static_cast<double>(scenario.iterations) / to_seconds(cluster.now());
  };
  const double pulls = 1e9 / 8 / (2 * 5.5e6);  // a second
  EXPECT_NEAR(rate("asp"), pulls, 0.01 * pulls);
  EXPECT_GT(rate("cgp"), 2 * pulls) << "where it sees pushes alone it comes to 1.7";
}

TEST(VirtualCluster, SaysHowBusyTheServersAreWithUpdates) {
  const auto of = [](const std::string& server) {
    const Scenario scenario =
        parse_scenario("iterations = 1000\n" + server + "[[device]]\ncount = 4\ncompute_ms = 100", "s.toml")
            .value();
    return simulate(scenario, policy::parse_policy("asp").value()).value().summary.updates;
  };
  EXPECT_FALSE(of(""));
  const auto updates = of("[server]\nupdate_ms = 50\n");
  ASSERT_TRUE(updates);
  EXPECT_NEAR(updates->busy_share, 1, 0.01);
  // Each takes turns with three others. A turn is 0.2 s: 0.1 s of computing, and 0.05 s for its own update.
  EXPECT_NEAR(updates->queued_mean_s, 0.05, 0.002);
}

TEST(VirtualCluster, AStepThatAReplicaTakesByItselfIsAnIteration) {
  const Scenario scenario =
      parse_scenario("iterations = 4000\n[[device]]\ncount = 4\ncompute_ms = 100", "s.toml").value();
  for (const char* policy : {"bsp", "local-sgd:1", "local-sgd:8"}) {
    const report::Summary summary = simulate(scenario, policy::parse_policy(policy).value()).value().summary;
    EXPECT_NEAR(static_cast<double>(summary.iterations) / summary.elapsed_s, 40, 0.01) << policy;
    EXPECT_NEAR(static_cast<double>(summary.iterations), 4000, 32) << policy;
    EXPECT_NEAR(summary.replicas[0].mean_compute_s.value(), 0.1, 1e-6) << policy;
  }
}

TEST(VirtualCluster, EndsWhenEverySampleIsCommitted) {
  const Ran ran = run("samples = 1000\n[[device]]\ncount = 3\nbatch = 64", "bsp");
  EXPECT_TRUE(ran.status.ok());
  const auto& last = ran.recorder.orders.back();
  EXPECT_EQ(std::get<control::Finish>(last).why, "every sample is committed");
}

TEST(VirtualCluster, ASlowdownIsOfTheIterationsThatStartInIt) {
  const Ran ran =
      run("iterations = 4\n[[device]]\ncompute_ms = 1000\n[[change]]\nat_s = 0.5\nuntil_s = 2.5\nfactor = 3",
          "asp");
  const auto ready = ran.recorder.of<ReplicaReady>();
  ASSERT_EQ(ready.size(), 4u);
  EXPECT_NEAR(ready[0].first, 1, 1e-9);
  EXPECT_NEAR(ready[1].first, 4, 1e-9);  // started at 1
  EXPECT_NEAR(ready[2].first, 5, 1e-9);
}

TEST(VirtualCluster, ACrashIsHeardOfLaterAndALeaveAtOnce) {
  const Ran ran = run(R"(
iterations = 50
detection_ms = 500
[[device]]
count = 3
[[change]]
at_s = 2.25
device = 1
what = "crash"
[[change]]
at_s = 4.25
device = 2
what = "leave"
)",
                      "bsp");
  ASSERT_TRUE(ran.status.ok());
  const auto left = ran.recorder.of<ReplicaLeft>();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_NEAR(left[0].first, 2.75, 1e-9);
  EXPECT_EQ(left[0].second.replica, ReplicaId(1));
  EXPECT_NEAR(left[1].first, 4.25, 1e-9);
  // The gradient it was computing never came.
  for (const auto& [at, ready] : ran.recorder.of<ReplicaReady>())
    EXPECT_FALSE(ready.replica == ReplicaId(1) && at > 2.25);
}

TEST(VirtualCluster, AReplicaThatComesBackIsANewOneInItsOldPlace) {
  const Ran ran = run(R"(
iterations = 50
[[device]]
count = 2
[[change]]
at_s = 2.5
device = 1
what = "crash"
[[change]]
at_s = 5.5
device = 1
what = "join"
)",
                      "bsp");
  ASSERT_TRUE(ran.status.ok());
  const auto joined = ran.recorder.of<ReplicaJoined>();
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_EQ(joined[2].second.replica, ReplicaId(2));
  EXPECT_EQ(joined[2].second.name, "w1");
  EXPECT_NEAR(joined[2].first, 5.5, 1e-9);
}

TEST(VirtualCluster, APlaceWhoseFirstChangeIsAJoinStartsEmpty) {
  const Ran ran =
      run("iterations = 9\n[[device]]\ncount = 2\n[[change]]\nat_s = 3\ndevice = 0\nwhat = \"join\"", "asp");
  const auto joined = ran.recorder.of<ReplicaJoined>();
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].second.name, "w1");
  EXPECT_EQ(joined[1].second.name, "w0");
}

TEST(VirtualCluster, FailuresAndRepairsGoOnUntilTheyAreToldToStop) {
  const Ran ran = run(R"(
samples = 40_000
faults_end_s = 200
[[device]]
count = 4
batch = 10
mtbf_s = 20
mttr_s = 5
)",
                      "ssp:3");
  ASSERT_TRUE(ran.status.ok()) << ran.status;
  EXPECT_FALSE(ran.broken) << *ran.broken;
  const auto left = ran.recorder.of<ReplicaLeft>();
  // 200 s of four replicas that fail every 25 s or so.
  EXPECT_GT(left.size(), 15u);
  EXPECT_LT(left.size(), 60u);
  EXPECT_LT(left.back().first, 201);
}

// The one replica always fails long before the end of its first iteration.
TEST(VirtualCluster, SaysSoIfReplicasComeBackWithoutEnd) {
  const Scenario scenario =
      parse_scenario("iterations = 9\n[[device]]\ncompute_ms = 1000\nmtbf_s = 0.001\nmttr_s = 0", "s.toml")
          .value();
  VirtualCluster cluster(scenario.cluster, controller_config(scenario),
                         policy::make_policy(policy::parse_policy("bsp").value()), {.most_replicas = 1000});
  const absl::Status status = cluster.run_until_over();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("1000 replicas have joined after "));
  EXPECT_FALSE(cluster.broken());
}

TEST(VirtualCluster, SaysSoWhenAllAreGoneForGood) {
  const Ran ran = run("iterations = 9\n[[device]]\n[[change]]\nat_s = 2.5\nwhat = \"leave\"", "bsp");
  EXPECT_EQ(ran.status.message(), "every replica is gone after 2.5 s and 2 iterations, and none comes back");
  EXPECT_FALSE(ran.broken);
}

// 1e10 s an iteration are more than a time can say.
TEST(VirtualCluster, SaysSoIfARunTakesTooLong) {
  const Ran ran =
      run("iterations = 9\n[[device]]\ncompute_ms = 1e9\nslow_chance = 1\nslow_factor = [1e4, 1e4]", "bsp");
  EXPECT_EQ(ran.status.message(), "the run takes more than 100 modelled years; 3 iterations are done");
  EXPECT_FALSE(ran.broken);
}

// A transfer is 1 s through the server and 0.1 s through a link.
constexpr char kBusyServer[] = R"(
iterations = 4
[model]
bytes = 125_000_000
[link]
latency_us = 0
[server]
gbps = 1.0
[[device]]
compute_ms = 1150
[[device]]
compute_ms = 200
)";

TEST(VirtualCluster, WeightsOpenWhenTheVersionBeforeIsComplete) {
  // The first pulls end at 1 and 2. w0 pushes from 2.15 to 3.15, w1 after it to 4.15; ssp:0 releases both
  // at 2.2, on version 2, whose first chunk is made when version 1 is complete: w0 pulls from 3.15, then w1
  // from 4.15.
  const auto ready = run(kBusyServer, "ssp:0").recorder.of<ReplicaReady>();
  ASSERT_EQ(ready.size(), 4u);
  EXPECT_NEAR(ready[0].first, 2.15, 1e-9);
  EXPECT_NEAR(ready[1].first, 2.2, 1e-9);
  EXPECT_EQ(ready[2].second.replica, ReplicaId(0));
  EXPECT_NEAR(ready[2].first, 5.3, 1e-9);
  EXPECT_NEAR(ready[3].first, 5.35, 1e-9);
}

TEST(VirtualCluster, MessagesTakeTheirLatencyAndComputeTimesDoNotHaveIt) {
  const Ran ran =
      run("iterations = 1\n[model]\nbytes = 1\n[link]\nlatency_us = 1_000_000\n[[device]]\ncompute_ms = 1000",
          "asp");
  const auto ready = ran.recorder.of<ReplicaReady>();
  ASSERT_EQ(ready.size(), 1u);
  // The release takes a second, the weights take one, the iteration, and the word of it.
  EXPECT_NEAR(ready[0].first, 4, 1e-6);
  EXPECT_NEAR(to_seconds(ready[0].second.compute), 2, 1e-6);
  EXPECT_NEAR(to_seconds(ready[0].second.pulling), 1, 1e-6);
  EXPECT_EQ(ready[0].second.loading, Duration::zero());
}

// A policy that forgets everybody.
class Forgetful final : public policy::SyncPolicy {
 public:
  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    orders.release(fact.replica, {"go"});
  }
  void left(Time, const policy::Left&, policy::Orders&) override {}
  void ready(Time, const policy::Ready&, policy::Orders&) override {}
  policy::Bounds bounds() const override { return {}; }
};

TEST(VirtualCluster, NoticesWhenReplicasWaitForEver) {
  const Scenario scenario = parse_scenario("[[device]]\ncount = 2", "s.toml").value();
  VirtualCluster cluster(scenario.cluster, controller_config(scenario), std::make_unique<Forgetful>(), {});
  EXPECT_FALSE(cluster.run_until_over().ok());
  EXPECT_EQ(*cluster.broken(), "at 1 s 2 replicas wait for ever");
}

// Commits each gradient when its timer rings.
class Timed final : public policy::SyncPolicy {
 public:
  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    orders.release(fact.replica, {"go"});
  }
  void left(Time, const policy::Left&, policy::Orders&) override {}
  void ready(Time now, const policy::Ready& fact, policy::Orders& orders) override {
    waiting_ = {fact.replica, fact.clock};
    orders.wake_at(now + from_seconds(9));
    orders.wake_at(now + from_seconds(0.5));  // takes the place of the first
  }
  void timer(Time, policy::Orders& orders) override {
    orders.commit({waiting_}, {"it rang"});
    orders.release(waiting_.replica, {"it rang"});
  }
  policy::Bounds bounds() const override { return {}; }

 private:
  policy::Contribution waiting_;
};

TEST(VirtualCluster, RingsWhenAPolicyAsksForIt) {
  const Scenario scenario = parse_scenario("iterations = 4\n[[device]]", "s.toml").value();
  Recorder recorder;
  VirtualCluster cluster(scenario.cluster, controller_config(scenario), std::make_unique<Timed>(),
                         {.listeners = {&recorder}, .stop_after_iterations = 4});
  ASSERT_TRUE(cluster.run_until_over().ok());
  const auto rang = recorder.of<control::TimerRang>();
  ASSERT_EQ(rang.size(), 3u);
  EXPECT_NEAR(rang[0].first, 1.5, 1e-9);
  EXPECT_NEAR(rang[2].first, 4.5, 1e-9);
}

// Checks that the cluster asks for real work in an order that can be done.
class StrictWork final : public Work {
 public:
  absl::Status start(const control::Release& release, const PlaceModel&) override {
    EXPECT_GE(version_, release.version) << "the weights it may pull are not there";
    EXPECT_TRUE(computing_.emplace(release.replica, version_).second) << "it computes already";
    return absl::OkStatus();
  }
  absl::StatusOr<Finished> finish(ReplicaId replica) override {
    EXPECT_EQ(computing_.count(replica), 1u) << "it has not started";
    bases[replica] = computing_.at(replica);
    computing_.erase(replica);
    return Finished{0.5};
  }
  absl::Status commit(Time, const control::CommitRecord& record) override {
    EXPECT_EQ(record.version, version_.next());
    version_ = record.version;
    for (const control::CommitMember& member : record.members) {
      EXPECT_EQ(computing_.count(member.replica), 0u) << "its gradient is overwritten";
      EXPECT_EQ(bases.at(member.replica), member.base) << "the fact names another version than was pulled";
    }
    return absl::OkStatus();
  }
  void forget(ReplicaId replica) override {
    computing_.erase(replica);
    bases.erase(replica);
    ++forgotten;
  }
  Version version() const { return version_; }
  std::map<ReplicaId, Version> bases;
  int forgotten = 0;

 private:
  Version version_;
  std::map<ReplicaId, Version> computing_;
};

// ---- Samples reserved ahead, and what loading them takes ----

TEST(VirtualCluster, LoadingGoesOnBesideComputingWhereSamplesAreReserved) {
  const auto end_s = [](int ahead, int load_ms) {
    const Ran ran =
        run(fmt::format("samples = 100\n[data]\nahead = {}\nload_ms = {}\n[[device]]\ncompute_ms = "
                        "100\nbatch = 10",
                        ahead, load_ms),
            "asp");
    EXPECT_EQ(ran.broken, std::nullopt);
    return ran.end_s;
  };
  for (const int ahead : {0, 1, 3}) EXPECT_NEAR(end_s(ahead, 0), 1.0, 1e-6);
  EXPECT_NEAR(end_s(0, 60), 1.6, 1e-6) << "one after the other";
  // The first has nothing to load beside; before the last one nothing is reserved any more.
  EXPECT_NEAR(end_s(1, 60), 0.06 + 1.0 + 0.06, 1e-6);
  EXPECT_NEAR(end_s(3, 60), 0.06 + 1.0 + 0.06, 1e-6);
  EXPECT_NEAR(end_s(1, 150), 9 * 0.15 + 0.1 + 0.15 + 0.1, 1e-6) << "as fast as it can load";
}

TEST(VirtualCluster, ReplicasSayHowLongSamplesAndWeightsKeptThem) {
  const Ran ran =
      run("iterations = 1\n[data]\nload_ms = 1500\n[model]\nbytes = 1\n[link]\nlatency_us = "
          "1_000_000\n[[device]]\n"
          "compute_ms = 1000",
          "asp");
  const auto ready = ran.recorder.of<ReplicaReady>();
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_NEAR(to_seconds(ready[0].second.compute), 2.5, 1e-6);
  EXPECT_NEAR(to_seconds(ready[0].second.loading), 1.5, 1e-6);
  EXPECT_EQ(ready[0].second.pulling, Duration::zero()) << "they came while it loaded";
}

TEST(VirtualCluster, DoesNotLoadSamplesThatAreNoLongerReserved) {
  Loader loader;
  const auto at = [](int s) { return Time{} + std::chrono::seconds(s); };
  const auto release = [](Lease lease, std::vector<Lease> ahead) {
    control::Release made;
    made.lease = lease;
    made.ahead = std::move(ahead);
    return made;
  };
  const Lease a{0, 0, 10}, b{0, 10, 20}, c{0, 20, 30}, d{0, 30, 35};
  EXPECT_EQ(loader.loaded(at(0), release(a, {b, c}), 1), at(10));
  // At 12 b is under way and goes on, c is not begun: d goes first.
  EXPECT_EQ(loader.loaded(at(12), release(d, {c}), 1), at(25));
  EXPECT_EQ(loader.loaded(at(40), release(c, {}), 1), at(35)) << "it was there before";
  EXPECT_EQ(loader.loaded(at(50), release(a, {}), 1), at(60)) << "and is gone once it was used";
}

// One replica is ten times slower than the others and has as much reserved as they have.
TEST(VirtualCluster, ReservationsOfASlowReplicaHoldNoReplicaUpAtTheEnd) {
  for (const std::string& policy : policy::one_of_each_policy()) {
    for (const int samples : {1000, 1009, 3100}) {
      const auto ran = [&](int ahead) {
        Ran one =
            run(fmt::format("samples = {}\n[data]\nahead = {}\n[[device]]\ncount = 3\ncompute_ms = 100\n"
                            "batch = 10\njitter = 0.05\n[[device]]\ncompute_ms = 1000\nbatch = 10",
                            samples, ahead),
                policy);
        EXPECT_TRUE(one.status.ok());
        EXPECT_EQ(one.broken, std::nullopt);
        return one;
      };
      EXPECT_LE(ran(16).end_s, ran(0).end_s + 1.0) << policy << ", " << samples << " samples";
    }
  }
}

// A share of uneven data is a little different each time.
TEST(VirtualCluster, SharesThatChangeALittleLeaveNoScrapsOfWhatIsReserved) {
  const auto commits = [](int ahead) {
    const Ran ran =
        run(fmt::format("samples = 60000\nparallel = \"uneven-data\"\n[data]\nahead = {}\n[[device]]\n"
                        "count = 2\ncompute_ms = 100\nbatch = 50\njitter = 0.1\n"
                        "[[device]]\ncompute_ms = 300\nbatch = 50\njitter = 0.1",
                        ahead),
            "bsp");
    EXPECT_EQ(ran.broken, std::nullopt);
    return std::pair(ran.recorder.orders.size(), ran.end_s);
  };
  const auto [orders, end_s] = commits(0);
  const auto [orders_ahead, end_ahead_s] = commits(8);
  EXPECT_LT(static_cast<double>(orders_ahead), 1.05 * static_cast<double>(orders));
  EXPECT_LT(end_ahead_s, 1.1 * end_s);
}

TEST(VirtualCluster, WorkIsAskedForInAnOrderThatCanBeDone) {
  for (const char* network : {"", "[model]\nbytes = 25_000_000\n[link]\ngbps = 1.0\n",
                              "[model]\nbytes = 25_000_000\n[server]\ngbps = 1.0\n"}) {
    for (const char* policy : {"bsp", "asp", "ssp:2", "dssp:1-4", "cgp", "cgp:k_min=2:S=3"}) {
      StrictWork work;
      const Ran ran = run(std::string("samples = 3000\n") + network + R"(
[[device]]
count = 3
compute_ms = 300
jitter = 0.3
batch = 10
[[device]]
compute_ms = 900
batch = 10
)",
                          policy, &work);
      EXPECT_TRUE(ran.status.ok()) << ran.status;
      EXPECT_FALSE(ran.broken) << *ran.broken;
      EXPECT_GE(work.version(), Version(75));
    }
  }
}

// Each has memory of its own in the Work. A gradient of one that left may still be on its way.
TEST(VirtualCluster, WorkHearsWhoseMemoryIsNeededNoMore) {
  for (const char* network : {"", "[model]\nbytes = 25_000_000\n[link]\ngbps = 1.0\n"}) {
    for (const char* policy : {"bsp", "asp", "ssp:2", "cgp"}) {
      StrictWork work;
      const Ran ran = run(std::string("samples = 3000\n") + network + R"(
[[device]]
count = 4
compute_ms = 300
jitter = 0.3
batch = 10
[[device]]
count = 4
compute_ms = 300
batch = 10
mtbf_s = 2
mttr_s = 1
)",
                          policy, &work);
      EXPECT_TRUE(ran.status.ok()) << ran.status;
      EXPECT_FALSE(ran.broken) << *ran.broken;
      EXPECT_GT(work.forgotten, 10) << policy;
      EXPECT_LE(work.bases.size(), 8u) << "of those that are here";
    }
  }
}

// Fails at its third gradient.
class FailingWork final : public Work {
 public:
  absl::Status start(const control::Release&, const PlaceModel&) override { return absl::OkStatus(); }
  absl::StatusOr<Finished> finish(ReplicaId) override {
    if (++finished_ == 3) return absl::InternalError("out of memory");
    return Finished{};
  }
  absl::Status commit(Time, const control::CommitRecord&) override { return absl::OkStatus(); }

 private:
  int finished_ = 0;
};

TEST(VirtualCluster, AnErrorOfTheWorkEndsTheRun) {
  FailingWork work;
  EXPECT_EQ(run("", "asp", &work).status.message(), "out of memory");
}

}  // namespace
}  // namespace paceline::sim

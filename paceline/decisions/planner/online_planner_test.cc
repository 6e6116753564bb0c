// The planner during a run, against a cluster whose true state is known: what it notices, what it leaves
// alone.
#include "paceline/decisions/planner/online_planner.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/decisions/planner/testing/random_problem.h"
#include "paceline/decisions/planner/testing/violation_bound.h"

namespace paceline::planner {
namespace {

// Four devices that each hold at most half of the model: pipelines are needed, so cuts matter.
Problem small_cluster() {
  Problem problem;
  for (int l = 0; l < 12; ++l) problem.model.layers.push_back({"layer", 1, 1.0 / 3, 1'000, 2'000, 1'000'000});
  for (int n = 0; n < 4; ++n) {
    Device device;
    device.name = std::string("d") + static_cast<char>('0' + n);
    device.memory_bytes = 18'000'000;
    device.servers = {0.1, 1e6};
    problem.cluster.devices.push_back(device);
  }
  problem.cluster.links.assign(16, {0.05, 1e6});
  problem.cluster.server_bytes_per_ms = 1e7;
  problem.batch = 64;
  problem.micro_batches = {1, 2, 4, 8};
  return problem;
}

// Runs one batch of the plan in the true state.
BatchObservation observe(const Problem& truth, const Plan& plan, double migration_ms = 0) {
  const CostModel model(truth);
  BatchObservation seen;
  for (const PlannedReplica& replica : plan.replicas) {
    for (std::size_t s = 0; s < replica.devices.size() && replica.samples > 0; ++s) {
      const std::int32_t begin = replica.begin(s), end = replica.end(s, truth.layers());
      const double each = model.compute_ms(replica.devices[s], begin, end, 1);
      seen.stages.push_back(
          {replica.devices[s], begin, end, replica.samples, 1, each * static_cast<double>(replica.samples)});
    }
  }
  seen.sync_ms = model.forecast(plan).sync_ms;
  seen.batch_ms = model.exact_batch_ms(plan) + migration_ms;
  return seen;
}

struct Played {
  double total_ms = 0;
  int changes = 0;
  double error = 0;  // mean of |predicted − measured| / measured
};

// `state`: what is true in this batch.
Played play_online(OnlinePlanner& planner, int batches, const std::function<Problem(int)>& state) {
  Played played;
  double migration_ms = 0;
  for (int t = 0; t < batches; ++t) {
    const BatchObservation seen = observe(state(t), planner.current(), migration_ms);
    played.total_ms += seen.batch_ms;
    played.error += std::abs(planner.predicted_ms() - seen.batch_ms) / seen.batch_ms / batches;
    const auto decision = planner.after_batch(seen);
    EXPECT_TRUE(decision.ok()) << decision.status();
    EXPECT_FALSE(decision->reason.empty());
    EXPECT_TRUE(CostModel(planner.measured()).check(planner.current()).ok());
    migration_ms = decision->migration_ms;
    if (migration_ms > 0) ++played.changes;
  }
  return played;
}

Problem slower(Problem problem, std::size_t device, double times) {
  problem.cluster.devices[device].speed /= times;
  return problem;
}

TEST(OnlinePlanner, LeavesASteadyClusterAlone) {
  const Problem problem = small_cluster();
  auto planner = OnlinePlanner::create(problem, {});
  ASSERT_TRUE(planner.ok()) << planner.status();
  const Played played = play_online(*planner, 450, [&](int) { return problem; });
  EXPECT_EQ(played.changes, 0);
  EXPECT_LT(played.error, 0.1);
  EXPECT_GT(planner->looks(), 10);
}

TEST(OnlinePlanner, GoesOnWithAPlanThatIsInUse) {
  const Problem problem = small_cluster();
  const Plan slow{{{{3, 1, 0, 2}, {1, 2, 10}, 64}}, 8};
  auto planner = OnlinePlanner::from(problem, {}, slow);
  ASSERT_TRUE(planner.ok()) << planner.status();
  EXPECT_EQ(planner->current(), slow);
  EXPECT_EQ(planner->predicted_ms(), CostModel(problem).forecast(slow).batch_ms);
  EXPECT_GE(play_online(*planner, 100, [&](int) { return problem; }).changes, 1);
  EXPECT_LT(planner->predicted_ms(), CostModel(problem).forecast(slow).batch_ms);
  const Plan too_large{{{{0}, {}, 64}}, 8};  // no device holds all
  EXPECT_FALSE(OnlinePlanner::from(problem, {}, too_large).ok());
}

// The planner only hears that a device has less than its stage needs.
TEST(OnlinePlanner, GivesADeviceWithoutMemoryASmallerStage) {
  const Problem problem = small_cluster();
  auto planner = OnlinePlanner::create(problem, {});
  ASSERT_TRUE(planner.ok());
  const auto bytes_of = [&](std::int32_t device) {
    std::int64_t bytes = 0;
    const Forecast forecast = CostModel(planner->measured()).forecast(planner->current());
    for (std::size_t r = 0; r < forecast.replicas.size(); ++r) {
      const std::vector<std::int32_t>& devices = planner->current().replicas[r].devices;
      for (std::size_t i = 0; i < devices.size(); ++i)
        if (devices[i] == device) bytes = forecast.replicas[r].memory[i].total();
    }
    return bytes;
  };
  std::int64_t needed = bytes_of(1);
  int times = 0;
  absl::StatusOr<Decision> decision = Decision{};
  while (needed > 0 && times < 30) {
    BatchObservation seen = observe(problem, planner->current());
    seen.out_of_memory = {{1}};
    decision = planner->after_batch(seen);
    if (!decision.ok()) break;
    ++times;
    EXPECT_TRUE(CostModel(planner->measured()).check(planner->current()).ok());
    EXPECT_LE(bytes_of(1), 0.9 * static_cast<double>(needed));
    needed = bytes_of(1);
  }
  EXPECT_GE(times, 1);
  EXPECT_TRUE(needed == 0 || absl::IsResourceExhausted(decision.status())) << decision.status();
  EXPECT_EQ(play_online(*planner, 0, [&](int) { return problem; }).changes, 0);
}

TEST(OnlinePlanner, FollowsADeviceThatStaysSlow) {
  const Problem problem = small_cluster();
  const Problem after = slower(problem, 1, 3);
  auto planner = OnlinePlanner::create(problem, {});
  ASSERT_TRUE(planner.ok());
  const double before_ms = planner->predicted_ms();
  const Plan first = planner->current();
  const Played played = play_online(*planner, 300, [&](int t) { return t < 100 ? problem : after; });
  EXPECT_GE(played.changes, 1);
  EXPECT_LE(played.changes, 6);
  const double frozen_ms = CostModel(after).exact_batch_ms(first);
  const double now_ms = CostModel(after).exact_batch_ms(planner->current());
  EXPECT_LT(now_ms, 0.8 * frozen_ms);
  // The plan is as good as a plan made afresh with the truth known.
  EXPECT_LT(now_ms, 1.05 * make_plan(after, {})->forecast.batch_ms);
  EXPECT_GT(now_ms, before_ms);
  EXPECT_NEAR(planner->measured().cluster.devices[1].speed, 1 / 3.0, 0.01);
}

// Other cuts help a little at once, and other groups much more: the planner looks at groups in the same
// batch.
TEST(OnlinePlanner, LooksAtOtherGroupsWhenADeviceIsSlowThoughOtherCutsHelpToo) {
  Problem problem = small_cluster();
  problem.model.layers.clear();
  for (const double work_ms : {0.1, 4.0, 0.5, 3.0, 0.5, 2.0})
    problem.model.layers.push_back({"layer", work_ms, 1.0 / 3, 1'000, 2'000, 1'000'000});
  for (const std::size_t n : {2, 3}) problem.cluster.devices[n].speed = 0.67;
  for (const std::size_t n : {0, 1}) problem.cluster.devices[n].memory_bytes = 100'000'000;
  for (const std::size_t n : {2, 3}) problem.cluster.devices[n].memory_bytes = 11'000'000;
  problem.batch = 128;
  problem.micro_batches = {4};
  for (std::size_t device = 0; device < 4; ++device) {
    for (const double times : {2.0, 3.0, 4.0, 6.0}) {
      const Problem after = slower(problem, device, times);
      auto planner = OnlinePlanner::create(problem, {});
      ASSERT_TRUE(planner.ok()) << planner.status();
      play_online(*planner, 24, [&](int t) { return t < 20 ? problem : after; });
      EXPECT_LT(CostModel(after).exact_batch_ms(planner->current()),
                1.05 * make_plan(after, {})->forecast.batch_ms)
          << "device " << device << ", slower by " << times;
    }
  }
}

TEST(OnlinePlanner, DoesNotMigrateForADeviceThatFlips) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  const Problem problem = small_cluster();
  const Problem other = slower(problem, 1, 3);
  constexpr int kBatches = 500;
  for (const int period : {3, 5, 8}) {
    OnlineOptions options;
    options.migration_ms = 3000;
    auto planner = OnlinePlanner::create(problem, options);
    ASSERT_TRUE(planner.ok());
    const Played played =
        play_online(*planner, kBatches, [&](int t) { return t / period % 2 == 0 ? problem : other; });
    EXPECT_LE(played.changes, 4) << period;  // flips: 166, 100, 62
  }
}

TEST(OnlinePlanner, PlansAnewWhenADeviceLeavesAndComesBack) {
  const Problem problem = small_cluster();
  auto planner = OnlinePlanner::create(problem, {});
  ASSERT_TRUE(planner.ok());
  play_online(*planner, 10, [&](int) { return problem; });
  BatchObservation seen = observe(problem, planner->current());
  seen.left = {2};
  const auto left = planner->after_batch(seen);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->kind, DecisionKind::kGroups);
  for (const PlannedReplica& replica : left->plan.replicas)
    EXPECT_EQ(std::count(replica.devices.begin(), replica.devices.end(), 2), 0);
  const double three_ms = left->predicted_ms;
  Problem without = problem;
  without.cluster.devices[2].present = false;
  play_online(*planner, 50, [&](int) { return without; });
  seen = observe(without, planner->current());
  seen.joined = {2};
  ASSERT_TRUE(planner->after_batch(seen).ok());
  play_online(*planner, 300, [&](int) { return problem; });
  EXPECT_LT(planner->predicted_ms(), three_ms);
}

TEST(OnlinePlanner, SaysWhenThoseThatAreLeftCannotHoldTheModel) {
  const Problem problem = small_cluster();
  auto planner = OnlinePlanner::create(problem, {});
  ASSERT_TRUE(planner.ok());
  BatchObservation seen = observe(problem, planner->current());
  seen.left = {0, 1, 2};
  const auto decision = planner->after_batch(seen);
  ASSERT_TRUE(absl::IsResourceExhausted(decision.status())) << decision.status();
  EXPECT_NE(decision.status().message().find("MB are missing"), std::string::npos) << decision.status();
}

TEST(OnlinePlanner, RollsBackAPlanThatDisappoints) {
  // Links are far slower than described, and are not measured: a plan with other cuts cannot keep its
  // promise.
  const Problem problem = small_cluster();
  OnlineOptions options;
  options.migration_ms = 1;
  auto planner = OnlinePlanner::create(problem, options);
  ASSERT_TRUE(planner.ok());
  const Plan first = planner->current();
  const Problem changed = slower(problem, 1, 2);
  int roll_backs = 0;
  for (int t = 0; t < 40; ++t) {
    BatchObservation seen = observe(changed, planner->current());
    const bool same =
        planner->current().replicas.size() == first.replicas.size() &&
        std::equal(first.replicas.begin(), first.replicas.end(), planner->current().replicas.begin(),
                   [](const auto& a, const auto& b) { return a.devices == b.devices && a.cuts == b.cuts; });
    if (!same) seen.batch_ms *= 5;
    const auto decision = planner->after_batch(seen);
    ASSERT_TRUE(decision.ok());
    if (decision->kind == DecisionKind::kRollBack) ++roll_backs;
  }
  EXPECT_GE(roll_backs, 1);
}

TEST(OnlinePlanner, KeepsALongTermBudget) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  Problem problem = small_cluster();
  for (Device& device : problem.cluster.devices) device.memory_bytes = Device::kNoLimit;
  for (std::size_t n = 0; n < 2; ++n) {
    problem.cluster.devices[n].speed = 3;
    problem.cluster.devices[n].price_per_hour = 9;
    problem.cluster.devices[n + 2].price_per_hour = 0.5;
  }
  // All four cost 19 an hour.
  problem.budgets = {{CostKind::kMoney, 11.0 / 3600, true}};
  OnlineOptions options;
  options.migration_ms = 20;
  auto planner = OnlinePlanner::create(problem, options);
  ASSERT_TRUE(planner.ok());
  double money = 0, ms = 0, migration_ms = 0;
  for (int t = 0; t < 3000; ++t) {
    const BatchObservation seen = observe(problem, planner->current(), migration_ms);
    money += CostModel(problem).costs(planner->current(), seen.batch_ms)[0];
    ms += seen.batch_ms;
    const auto decision = planner->after_batch(seen);
    ASSERT_TRUE(decision.ok());
    migration_ms = decision->migration_ms;
  }
  EXPECT_LE(money / (ms / 3.6e6), 11 * 1.02);
  EXPECT_LE(money / 3000,
            11.0 / 3.6e6 * ms / 3000 + violation_bound(planner->queues(), problem.budgets, 0) + 1e-9);
  // The run is no slower than one that never uses more than the budget allows at any time.
  EXPECT_LE(ms / 3000, make_plan(problem, {})->forecast.batch_ms * 1.05);
}

TEST(OnlinePlanner, GoesOnWithTheQueuesOfACheckpoint) {
  Problem problem = small_cluster();
  problem.cluster.devices[0].price_per_hour = 5;
  problem.budgets = {{CostKind::kMoney, 1e-6, false}};
  auto first = OnlinePlanner::create(problem, {}), second = OnlinePlanner::create(problem, {});
  ASSERT_TRUE(first.ok() && second.ok());
  play_online(*first, 20, [&](int) { return problem; });
  EXPECT_GT(first->queues().lengths[0], 0);
  second->restore(first->queues());
  EXPECT_EQ(second->queues(), first->queues());
  const BatchObservation seen = observe(problem, second->current());
  ASSERT_TRUE(second->after_batch(seen).ok());
  EXPECT_EQ(second->queues().batches, first->queues().batches + 1);
}

TEST(Estimates, OneOddValueHardlyCountsASecondOneIsAChange) {
  ClippedMean mean(10);
  for (int i = 0; i < 20; ++i) mean.add(10);
  mean.add(100);
  EXPECT_LT(mean.value(), 11);
  mean.add(10);
  mean.add(40);
  mean.add(40);
  EXPECT_GT(mean.value(), 35);
}

TEST(Estimates, ALinkIsLearntFromTransfersOfUnlikeSize) {
  Rng rng(5);
  LinkEstimate estimate({1, 100});
  const Link truth{4, 250};
  for (int i = 0; i < 300; ++i) {
    const double bytes = 100 + 5000 * rng.uniform();
    estimate.add(bytes, truth.ms(bytes) * (0.98 + 0.04 * rng.uniform()));
  }
  EXPECT_NEAR(estimate.link().latency_ms, 4, 0.4);
  EXPECT_NEAR(estimate.link().bytes_per_ms, 250, 15);
}

TEST(Estimates, TransfersOfOneSizeKeepTheLatency) {
  LinkEstimate estimate({1, 100});
  for (int i = 0; i < 200; ++i) estimate.add(1000, 6);
  EXPECT_DOUBLE_EQ(estimate.link().latency_ms, 1);
  EXPECT_NEAR(estimate.link().ms(1000), 6, 0.01);
}

TEST(Estimates, ALinkThatIsOnlySeenBesideOthersChangesAsThatDoes) {
  LinkEstimate estimate({0, 100});
  for (int i = 0; i < 20; ++i) {
    estimate.add_shared(1000, 20);  // half of it
    estimate.add(1000, 10);
  }
  EXPECT_NEAR(estimate.link().bytes_per_ms, 100, 0.01) << "what is seen of itself counts";
  for (int i = 0; i < 20; ++i) estimate.add_shared(1000, 20);
  EXPECT_NEAR(estimate.link().bytes_per_ms, 100, 0.01) << "nothing has changed";
  for (int i = 0; i < 20; ++i) estimate.add_shared(1000, 200);
  EXPECT_NEAR(estimate.link().bytes_per_ms, 10, 0.5);
  for (int i = 0; i < 20; ++i) estimate.add_shared(1000, 20);
  EXPECT_NEAR(estimate.link().bytes_per_ms, 100, 1);
  estimate.add(1000, 10);
  EXPECT_NEAR(estimate.link().bytes_per_ms, 100, 1);
}

// Four devices on links that are said to be alike, and a fifth on others.
TEST(Measurements, ADeviceThatTakesTheMeasuredTimesIsAsFastAsItWas) {
  Problem problem;
  // A line through these times is 6 ms at 4 samples.
  problem.model.layers = {{.name = "layer", .work_ms = 1, .fixed_ms = 2, .measured = {{2, 10}, {4, 11}}}};
  problem.model.step_overhead = {{4, 5}};
  problem.cluster.devices.resize(1);
  problem.cluster.devices[0].overhead_ms = 2;
  problem.cluster.links.resize(1);
  problem.batch = 8;
  problem.micro_batches = {4};
  Measurements measurements(problem);
  const Plan plan{{{{0}, {}, 8}}, 4};
  BatchObservation seen;
  seen.stages = {{0, 0, 1, 8, 2, 2 * (11 + 5 + 2)}};
  measurements.add(seen, plan);
  EXPECT_NEAR(measurements.problem().cluster.devices[0].speed, 1, 1e-9);
}

// Devices that cannot hold the whole model, and layers whose times no line over the size fits.
Problem two_devices(double second) {
  Problem problem;
  for (int l = 0; l < 12; ++l) {
    LayerProfile layer{.name = "layer", .work_ms = 1, .parameter_bytes = 1'000'000};
    layer.measured = {{2, 2}, {4, l < 6 ? 4.0 : 12.0}};
    problem.model.layers.push_back(layer);
  }
  problem.model.stage_overhead = {{4, 6}};
  problem.cluster.devices.resize(2);
  problem.cluster.devices[1].speed = second;
  for (Device& device : problem.cluster.devices) device.memory_bytes = 23'000'000;
  problem.cluster.links.resize(4);
  problem.batch = 64;
  problem.micro_batches = {4};
  return problem;
}

TEST(OnlinePlanner, CutsForASlowDeviceAsAPlanWithItsSpeedDoes) {
  const Problem truth = two_devices(0.5);
  const Plan wanted = make_plan(truth, {}).value().found.plan;
  const Plan first = make_plan(two_devices(1), {}).value().found.plan;
  ASSERT_FALSE(same_stages(wanted, first));
  OnlineOptions options;
  options.trial = 0;
  OnlinePlanner planner = OnlinePlanner::from(two_devices(1), options, first).value();
  for (int batch = 0; batch < 50; ++batch) {
    BatchObservation seen;
    seen.batch_ms = CostModel(truth).exact_batch_ms(planner.current());
    const PlannedReplica& replica = planner.current().replicas.front();
    for (std::size_t s = 0; s < replica.devices.size(); ++s) {
      const std::int32_t n = replica.devices[s], begin = replica.begin(s), end = replica.end(s, 12);
      seen.stages.push_back({n, begin, end, 64, 16, 16 * CostModel(truth).compute_ms(n, begin, end, 4)});
    }
    ASSERT_TRUE(planner.after_batch(seen).ok());
  }
  EXPECT_TRUE(same_stages(planner.current(), wanted))
      << planner.current().replicas.front().begin(1) << " and not " << wanted.replicas.front().begin(1);
  EXPECT_NEAR(planner.measured().cluster.devices[0].speed, 1, 0.01);
  EXPECT_NEAR(planner.measured().cluster.devices[1].speed, 0.5, 0.01);
}

TEST(Measurements, ALinkThatNothingIsKnownOfIsAsGoodAsOthersOfItsKind) {
  Problem problem;
  problem.model.layers.resize(1);
  problem.cluster.devices.resize(5);
  for (int from = 0; from < 5; ++from) {
    for (int to = 0; to < 5; ++to)
      problem.cluster.links.push_back({0.5, from == 4 || to == 4 ? 10.0 : 1000.0});
  }
  Measurements measurements(problem, true);
  const auto see = [&](std::int32_t from, std::int32_t to, double bytes_per_ms) {
    BatchObservation seen;
    for (int i = 0; i < 8; ++i) seen.links.push_back({from, to, 1000, 0.5 + 1000 / bytes_per_ms});
    measurements.add(seen, {});
  };
  const auto known = [&](std::int32_t from, std::int32_t to) {
    return measurements.problem().cluster.link(from, to).bytes_per_ms;
  };
  EXPECT_EQ(known(2, 3), 1000);
  see(0, 1, 100);
  EXPECT_NEAR(known(2, 3), 100, 1);
  EXPECT_EQ(known(3, 4), 10) << "of another kind";
  see(1, 0, 80);
  EXPECT_NEAR(known(2, 3), 90, 1);
  EXPECT_NEAR(known(0, 1), 100, 1) << "it is known itself";
  see(0, 1, 10);
  see(1, 0, 10);
  EXPECT_NEAR(known(2, 3), 90, 1) << "these have become slow, which says nothing of others";
}

TEST(Estimates, ALinkCarriesAtLeastWhatIsSeenBesideOthers) {
  LinkEstimate estimate({1, 100});
  for (int i = 0; i < 3; ++i) estimate.add_shared(1000, 3);
  EXPECT_NEAR(estimate.link().bytes_per_ms, 1000.0 / 3, 0.01);
}

}  // namespace
}  // namespace paceline::planner

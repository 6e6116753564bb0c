// Tests of what a live run tells the planner, without any process: the Replanner of a job. replanner_story_test.cc has
// the courses of a run.
#include "paceline/decisions/control/replanner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/effort.h"
#include "paceline/decisions/control/replay.h"
#include "paceline/formats/config/planning.h"

namespace paceline::config {
namespace {

// Two devices of one pace, and 6 layers. Each device holds at most 5.
JobConfig job(const std::string& memory) {
  return parse_job("parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\n[[device]]\ncount = 2\npace_ms = 96\n" +
                       memory +
                       "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 16\n"
                       "[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 100\noutput_kb = 0.1\n",
                   "job.toml")
      .value();
}

constexpr char kMemory[] = "memory_mb = 1.1\n";
using control::Replanner;
using Change = std::optional<control::PlanAdopted>;

absl::StatusOr<std::unique_ptr<Replanner>> replanner_of(const JobConfig& of) {
  return Replanner::create(*replanner_options(of, RunTime::kWall));
}

void join(Replanner& replanner, int replica, int place) {
  ASSERT_TRUE(replanner.joined({ReplicaId(replica), "", 1, place}).ok());
}

void finish(Replanner& replanner, int replica, std::int64_t samples, std::vector<Duration> worked,
            Duration compute) {
  control::ReplicaReady fact{ReplicaId(replica), Clock(1), Version(0), compute};
  fact.worked = std::move(worked);
  ASSERT_TRUE(replanner.check(fact).ok());
  replanner.finished(fact, samples);
}

struct Orders {
  std::optional<control::BatchDone> batch;
  Change change;
  std::optional<control::NoPlan> none;
};

// Returns the Replanner's orders, after carrying out the searches that it ordered.
Orders carry_out(Replanner& replanner, Time at, std::vector<control::Order> orders) {
  Orders all;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (const auto* batch = std::get_if<control::BatchDone>(&orders[i])) all.batch = *batch;
    if (const auto* change = std::get_if<control::PlanAdopted>(&orders[i])) all.change = *change;
    if (const auto* none = std::get_if<control::NoPlan>(&orders[i])) all.none = *none;
    if (const auto* search = std::get_if<control::SearchPlan>(&orders[i])) {
      const control::PlanSearched found = control::searched(*search);
      EXPECT_TRUE(replanner.searched(at, found, orders).ok());
    }
  }
  return all;
}

Orders end_batch(Replanner& replanner, Time at) {
  std::vector<control::Order> orders;
  replanner.end_batch(at, orders);
  return carry_out(replanner, at, std::move(orders));
}

TEST(Replanner, IsForJobsWhosePlannerMadeThePlan) {
  JobConfig other = job("");
  EXPECT_TRUE(replanner_of(other).value()->plans_anew());
  other.parallel.mode = Parallel::kPipeline;
  EXPECT_FALSE(replanner_of(other).value()->plans_anew());
  other.parallel.mode = Parallel::kStatic;
  EXPECT_FALSE(replanner_options(other, RunTime::kWall));
  JobConfig wrong = job("");
  wrong.parallel.plan.replicas[0].cuts = {9};
  EXPECT_FALSE(replanner_of(wrong).ok());
}

TEST(Replanner, SaysWhatABatchTookAndWhatWasPredicted) {
  const JobConfig planned = job(kMemory);
  const auto replanner = replanner_of(planned).value();
  join(*replanner, 0, 0);
  const control::PlanAdopted first = replanner->first(Time{});
  EXPECT_EQ(first.plan, planned.parallel.plan);
  EXPECT_GT(first.predicted_ms, 0);
  const auto done = [&](std::int64_t samples, double at_s) {
    finish(*replanner, 0, samples, {from_seconds(0.06), from_seconds(0.05)}, from_seconds(0.1));
    EXPECT_TRUE(replanner->batch_is_over());
    return end_batch(*replanner, Time(from_seconds(at_s))).batch;
  };
  EXPECT_FALSE(done(16, 0.1)) << "nobody saw it begin";
  const auto whole = done(16, 0.25);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->regular);
  EXPECT_NEAR(whole->measured_ms, 150, 1e-6);
  ASSERT_EQ(whole->work.size(), 2u);
  EXPECT_EQ(whole->work[1].device, 1);
  EXPECT_EQ(whole->work[1].computed, from_seconds(0.05));
  EXPECT_FALSE(done(8, 0.35)->regular) << "half a batch";
}

// Two devices that each hold the model. One becomes expensive: costs settle at the budget, and the rest buys
// time.
TEST(Replanner, KeepsABudgetWhenPricesChange) {
  const JobConfig priced =
      parse_job(
          "parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\n[budget]\nmost = 6\nper = \"hour\"\n"
          "[[device]]\ncount = 2\npace_ms = 96\nprice_per_hour = 1\n"
          "[[change]]\ndevice = 1\nat_s = 10\nprice_per_hour = 20\n"
          "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 8\n[[pipeline]]\ndevices = [\"w1\"]\nsamples = 8\n"
          "[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 0.1\noutput_kb = 0.1\n",
          "job.toml")
          .value();
  const auto replanner = replanner_of(priced).value();
  planner::Plan plan = priced.parallel.plan;
  const auto join_all = [&] {
    for (int g = 0; g < 2; ++g) replanner->left(ReplicaId(g));
    for (int g = 0; g < std::ssize(plan.replicas); ++g) join(*replanner, g, g);
  };
  join_all();
  double now_s = 0, cost = 0, allowed = 0, queue_max = 0;
  int changes_before = 0, changes = 0;
  for (int i = 0; i < 4000; ++i) {
    double took_s = 0;
    for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
      const std::int64_t samples = 16 / static_cast<std::int64_t>(plan.replicas.size());
      const Duration compute = from_seconds(0.012 * static_cast<double>(samples));
      finish(*replanner, static_cast<int>(g), samples, {compute}, compute);
      took_s = to_seconds(compute);
    }
    now_s += took_s;
    const Orders ended = end_batch(*replanner, Time(from_seconds(now_s)));
    if (ended.change) plan = ended.change->plan;
    if (ended.change) join_all();
    (now_s < 10 ? changes_before : changes) += ended.change ? 1 : 0;
    if (!ended.batch) continue;
    ASSERT_TRUE(ended.batch->spending);
    cost += ended.batch->spending->cost;
    allowed += ended.batch->spending->allowed;
    queue_max = std::max(queue_max, ended.batch->spending->queue);
  }
  EXPECT_EQ(changes_before, 0) << "both together cost 2 an hour";
  EXPECT_GE(changes, 1);
  EXPECT_GT(queue_max, 1);
  EXPECT_LE(cost, 1.05 * allowed);
  EXPECT_GE(cost, 0.5 * allowed) << "nothing is bought that could be";
  // Nothing that stays keeps a budget: what it runs ahead of grows.
  JobConfig kept = priced;
  kept.parallel.mode = Parallel::kFrozen;
  const auto frozen = replanner_of(kept).value();
  for (int g = 0; g < 2; ++g) join(*frozen, g, g);
  double queue = 0;
  for (int i = 0; i < 1000; ++i) {
    for (int g = 0; g < 2; ++g) finish(*frozen, g, 8, {from_seconds(0.096)}, from_seconds(0.096));
    const Orders ended = end_batch(*frozen, Time(from_seconds(0.1 * (i + 1))));
    if (ended.batch) queue = ended.batch->spending->queue;
  }
  EXPECT_GT(queue, 500);
}

template <class Visit>
void for_each_device(const planner::PlannedReplica& replica, Visit visit) {
  for (const planner::PlannedStage& stage : planner::stages_of(replica, 6)) {
    for (std::size_t turn = 0; turn < stage.width; ++turn)
      visit(stage, turn, replica.devices[stage.first + turn]);
  }
}

// Which devices hand micro-batches to which.
std::vector<std::pair<int, int>> ways_of(const planner::PlannedReplica& replica) {
  std::vector<std::pair<int, int>> ways;
  const auto stages = planner::stages_of(replica);
  for (std::size_t s = 1; s < stages.size(); ++s) {
    for (std::size_t from = 0; from < stages[s - 1].width; ++from) {
      for (std::size_t to = 0; to < stages[s].width; ++to) {
        if (meet(from, stages[s - 1].width, to, stages[s].width))
          ways.emplace_back(replica.devices[stages[s - 1].first + from],
                            replica.devices[stages[s].first + to]);
      }
    }
  }
  return ways;
}

// One device each on three hosts, and none holds the model. w2 is the slow one, so the first stage is on w0
// and the second on w1, or on w1 and w2 in turn, as long as the link between w0 and w1 is as good as the job
// says.
TEST(Replanner, PlansAroundALinkThatHasBecomeSlowAndComesBackWhenItIsFast) {
  const JobConfig job =
      parse_job(
          "parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\ncluster.hosts = 3\n[link]\ngbps = 1\n"
          "[[device]]\npace_ms = 96\nmemory_mb = 1.1\nhost = 0\n[[device]]\npace_ms = 96\nmemory_mb = "
          "1.1\nhost = 1\n"
          "[[device]]\npace_ms = 768\nmemory_mb = 1.1\nhost = 2\n"
          "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 24\n"
          "[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 100\noutput_kb = 1000\nactivation_kb = 1\n",
          "job.toml")
          .value();
  const auto replanner = replanner_of(job).value();
  for (std::int32_t device = 0; device < 3; ++device)
    ASSERT_TRUE(replanner->joined(control::DeviceJoined{device}).ok());
  join(*replanner, 0, 0);
  planner::Plan plan = job.parallel.plan;
  double gbps = 1;  // the rate of the link between hosts 0 and 1
  const auto measure = [&](int from, int to, double over_gbps, bool shared) {
    const double seconds = 500e3 * 8 / (over_gbps * 1e9);
    ASSERT_TRUE(replanner
                    ->measured(control::LinkMeasured{HostPlace(from), HostPlace(to), 500'000,
                                                     from_seconds(seconds), shared})
                    .ok());
  };
  int now = 0;
  const auto rounds = [&](int count) {
    int changes = 0;
    for (int i = 0; i < count; ++i) {
      std::vector<Duration> worked;
      for_each_device(plan.replicas[0],
                      [&](const planner::PlannedStage& stage, std::size_t turn, int device) {
                        const auto samples = static_cast<double>(samples_in_turn(24, 2, turn, stage.width));
                        worked.push_back(from_seconds(*job.devices[static_cast<std::size_t>(device)].pace_ms /
                                                      1000 / 8 / 6 * samples * (stage.end - stage.begin)));
                      });
      for (const auto& [from, to] : ways_of(plan.replicas[0])) {
        measure(from, to, from + to == 1 ? gbps : 1, false);
        measure(to, from, from + to == 1 ? gbps : 1, false);
      }
      finish(*replanner, 0, 24, worked, from_seconds(0.4));
      const Orders ended = end_batch(*replanner, Time{} + from_seconds(++now * 0.4));
      if (!ended.change) continue;
      plan = ended.change->plan;
      ++changes;
      for (std::size_t g = 0; g < plan.replicas.size(); ++g)
        join(*replanner, static_cast<int>(g), static_cast<int>(g));
    }
    return changes;
  };
  const auto uses_the_link = [&] {
    const auto ways = ways_of(plan.replicas[0]);
    return std::any_of(ways.begin(), ways.end(), [](const auto& way) { return way.first + way.second == 1; });
  };
  EXPECT_LE(rounds(100), 1);
  ASSERT_TRUE(uses_the_link());
  gbps = 0.1;
  EXPECT_GE(rounds(40), 1);
  EXPECT_FALSE(uses_the_link()) << "it is ten times slower";
  // Nothing goes over it between stages now. Servers use it beside others.
  for (int i = 0; i < 20; ++i) {
    measure(0, 1, 0.05, true);
    EXPECT_EQ(rounds(5), 0) << "it is still slow";
  }
  gbps = 1;
  int changes = 0;
  for (int i = 0; i < 10; ++i) {
    measure(0, 1, 0.5, true);
    changes += rounds(5);
  }
  EXPECT_GE(changes, 1);
  EXPECT_TRUE(uses_the_link());
}

TEST(Replanner, WaitingForWeightsIsSynchronizing) {
  const JobConfig planned = job(kMemory);
  const auto predicted_with = [&](Duration pulling) {
    const auto replanner = replanner_of(planned).value();
    join(*replanner, 0, 0);
    double predicted_ms = 0;
    for (int i = 1; i <= 30; ++i) {
      control::ReplicaReady fact{ReplicaId(0), Clock(1), Version(0), from_seconds(0.3)};
      fact.worked = {from_seconds(0.096), from_seconds(0.096)};
      fact.pulling = pulling;
      replanner->finished(fact, 16);
      const Orders ended = end_batch(*replanner, Time{} + from_seconds(i * 0.3));
      if (ended.batch) predicted_ms = ended.batch->predicted_ms;
    }
    return predicted_ms;
  };
  EXPECT_NEAR(predicted_with(from_seconds(0.1)) - predicted_with(Duration::zero()), 100, 1);
}

TEST(Replanner, IgnoresImpossibleMeasurementsOfALink) {
  const JobConfig one = job("");
  const auto replanner = replanner_of(one).value();
  const auto says = [&](int from, int to, std::int64_t bytes, int ns) {
    return replanner
        ->measured(control::LinkMeasured{HostPlace(from), HostPlace(to), bytes, Duration(ns), false})
        .ok();
  };
  EXPECT_TRUE(says(0, 1, 1, 1)) << "of a host without a device";
  EXPECT_FALSE(says(0, 0, 1, 1));
  EXPECT_FALSE(says(0, 1, 0, 1));
  EXPECT_FALSE(says(0, 1, 1, 0));
  EXPECT_FALSE(says(0, 1, 1, -1));
}

// A Controller whose replicas take 12 ms a sample on each device, and what its rounds use.
class PlannedRounds {
 public:
  PlannedRounds(const JobConfig& job, std::vector<double> slowness)
      : job_(job),
        slowness_(std::move(slowness)),
        controller_(controller_config(job, 1 << 20), policy::make_policy(job.policy),
                    replanner_of(job).value()) {
    for (int device = 0; device < std::ssize(job.devices); ++device) tell(control::DeviceJoined{device});
    join(job.parallel.plan);
  }

  // Everybody computes what it was released for. The samples, by device.
  std::vector<std::int64_t> round() {
    const std::vector<control::Release> released = std::exchange(released_, {});
    std::vector<std::int64_t> samples(job_.devices.size());
    double longest = 0;
    for (const control::Release& one : released) longest = std::max(longest, seconds(one));
    now_ += longest;
    for (const control::Release& one : released) {
      samples[device(one.replica)] = one.lease.size();
      control::ReplicaReady fact{one.replica, one.clock, controller_.version(), from_seconds(seconds(one))};
      fact.worked = {from_seconds(seconds(one))};
      tell(fact);
    }
    if (const auto search = std::exchange(search_, std::nullopt)) tell(control::searched(*search));
    if (const auto plan = std::exchange(adopted_, std::nullopt)) {
      released_.clear();
      for (const auto& [replica, device] : std::exchange(devices_, {}))
        tell(control::ReplicaLeft{replica, "re-planned"});
      released_.clear();
      join(*plan);
    }
    return samples;
  }
  // The samples of the newest plan, for each device.
  std::vector<std::int64_t> planned() const {
    std::vector<std::int64_t> samples(job_.devices.size());
    const planner::Plan plan = controller_.plan().value();
    for (const planner::PlannedReplica& replica : plan.replicas)
      samples[static_cast<std::size_t>(replica.devices[0])] = replica.samples;
    return samples;
  }
  // The samples of the replicas that are released and have not computed.
  std::vector<std::int64_t> leased() const {
    std::vector<std::int64_t> samples(job_.devices.size());
    for (const control::Release& one : released_) samples[device(one.replica)] = one.lease.size();
    return samples;
  }
  void slow_down(std::size_t device, double slowness) { slowness_[device] = slowness; }

 private:
  std::size_t device(ReplicaId replica) const { return devices_.at(replica); }
  double seconds(const control::Release& one) const {
    return 0.012 * slowness_[device(one.replica)] * static_cast<double>(one.lease.size());
  }
  void join(const planner::Plan& plan) {
    for (std::size_t place = 0; place < plan.replicas.size(); ++place) {
      const ReplicaId id(next_++);
      devices_[id] = static_cast<std::size_t>(plan.replicas[place].devices[0]);
      tell(control::ReplicaJoined{id, "", plan.replicas[place].samples, static_cast<std::int32_t>(place)});
    }
  }
  void tell(decltype(control::Fact::what) what) {
    std::vector<control::Order> orders;
    ASSERT_TRUE(controller_.handle({Time(from_seconds(now_)), std::move(what)}, orders).ok());
    for (const control::Order& order : orders) {
      if (const auto* one = std::get_if<control::Release>(&order)) released_.push_back(*one);
      if (const auto* one = std::get_if<control::SearchPlan>(&order)) search_ = *one;
      const auto* adopted = std::get_if<control::PlanAdopted>(&order);
      if (adopted != nullptr && now_ > 0) adopted_ = adopted->plan;
    }
  }

  const JobConfig& job_;
  std::vector<double> slowness_;
  control::Controller controller_;
  std::map<ReplicaId, std::size_t> devices_;
  std::vector<control::Release> released_;
  std::optional<control::SearchPlan> search_;
  std::optional<planner::Plan> adopted_;
  double now_ = 0;
  int next_ = 0;
};

JobConfig two_devices(const std::string& more) {
  return parse_job(
             "parallel = \"joint\"\nbatch = 8\nmicro_batch = 1\n" + more +
                 "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 8\n[[pipeline]]\ndevices = [\"w1\"]\n"
                 "samples = 8\n[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 0.1\noutput_kb = 0.1\n",
             "job.toml")
      .value();
}

TEST(Replanner, DecidesTheDataOfEveryBatch) {
  const JobConfig job = two_devices("[[device]]\ncount = 2\npace_ms = 96\n");
  PlannedRounds rounds(job, {1, 1});
  for (int i = 0; i < 60; ++i) {
    if (i == 20) rounds.slow_down(1, 3);
    rounds.round();
    ASSERT_EQ(rounds.leased(), rounds.planned()) << "after batch " << i;
  }
  EXPECT_THAT(rounds.leased(), testing::ElementsAre(12, 4)) << "one is three times slower";
}

// Samples have 100 to 1,000 tokens, which take the time, and w0 is three times as fast as w1.
std::vector<std::int64_t> shares_of_w0(bool tells) {
  const JobConfig job = two_devices("[[device]]\ncount = 2\npace_ms = 96\n");
  const auto replanner = replanner_of(job).value();
  for (const int replica : {0, 1}) join(*replanner, replica, replica);
  Rng rng(3);
  std::vector<std::int64_t> shares;
  Time now{};
  for (int batch = 0; batch < 150; ++batch) {
    Duration slowest{0};
    for (const auto& [replica, samples] : replanner->data()) {
      const double tokens = static_cast<double>(samples) * (100 + 900 * rng.uniform());
      const Duration took = from_seconds(tokens * 2e-5 * (replica == ReplicaId(0) ? 1 : 3));
      slowest = std::max(slowest, took);
      control::ReplicaReady fact{replica, Clock(1), Version(0), took};
      fact.worked = {took};
      if (tells) fact.weight = tokens;
      replanner->finished(fact, samples);
      if (replica == ReplicaId(0)) shares.push_back(samples);
    }
    now += slowest;
    end_batch(*replanner, now);
  }
  return shares;
}

TEST(Replanner, SharesFollowTheTokensOfASecondIfTheyPredictTheTimesBetter) {
  const auto told = shares_of_w0(true), not_told = shares_of_w0(false);
  ASSERT_EQ(told.size(), 150U);
  const auto settled = [](const std::vector<std::int64_t>& shares) {
    return std::count(shares.begin() + 50, shares.end(), 12);
  };
  EXPECT_EQ(settled(told), 100);
  EXPECT_LT(settled(not_told), 90);
}

// Two devices are equally fast, and one uses ten times as much energy. A batch settles at the budget of 6 J;
// shares by speed alone would use 10.6 J.
TEST(Replanner, KeepsABudgetOfEnergyByItsData) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  const JobConfig job = two_devices(
      "[budget]\nkind = \"energy_j\"\nmost = 6\nv = 2\n[[device]]\npace_ms = 96\npower_w = 10\n"
      "[[device]]\npace_ms = 96\npower_w = 100\n");
  PlannedRounds rounds(job, {1, 1});
  constexpr int kBatches = 5000;
  double energy = 0;
  std::int64_t of_the_hungry = 0;
  for (int i = 0; i < kBatches; ++i) {
    const auto samples = rounds.round();
    ASSERT_EQ(samples[0] + samples[1], 16);
    energy += 0.012 * (10 * static_cast<double>(samples[0]) + 100 * static_cast<double>(samples[1]));
    of_the_hungry += samples[1];
  }
  EXPECT_LE(energy / kBatches, 6 * 1.03);
  EXPECT_GT(of_the_hungry, kBatches) << "it is used as far as the budget goes";
}

// Three devices. The plan uses two of them, each as a replica.
JobConfig job_of_three() {
  return parse_job(
             "parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\n[[device]]\ncount = 3\npace_ms = 96\n"
             "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 12\n[[pipeline]]\ndevices = [\"w1\"]\nsamples = "
             "12\n[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 0.1\noutput_kb = 0.1\n",
             "job.toml")
      .value();
}

// A replica whose gradient is discarded leaves, and its device stays. Its next replica would wait for that of
// the device that has gone.
TEST(Replanner, PlansAroundADeviceThatLeftWhenTheOtherReplicasLeaveToo) {
  const JobConfig three = job_of_three();
  control::Controller controller(controller_config(three, 1000), policy::make_policy(three.policy),
                                 replanner_of(three).value());
  std::vector<control::Order> orders;
  const auto tell = [&](decltype(control::Fact::what) what) {
    orders.clear();
    EXPECT_TRUE(controller.handle({Time{}, std::move(what)}, orders).ok());
  };
  tell(control::ReplicaJoined{ReplicaId(0), "w0", 12, 0});
  tell(control::ReplicaJoined{ReplicaId(1), "w1", 12, 1});
  tell(control::ReplicaLeft{ReplicaId(1), "w1 is gone"});
  tell(control::DeviceLeft{1});
  EXPECT_FALSE(controller.searching()) << "the other one ends the batch";
  tell(control::ReplicaLeft{ReplicaId(0), "its gradient is not finite"});
  EXPECT_TRUE(controller.searching());
}

// Its replica has left, and nobody is here to end the batch.
TEST(Replanner, LooksForSmallerStagesWhenADeviceHasNoMemory) {
  const JobConfig planned = job("");
  control::Controller controller(controller_config(planned, 1000), policy::make_policy(planned.policy),
                                 replanner_of(planned).value());
  std::vector<control::Order> orders;
  const auto tell = [&](decltype(control::Fact::what) what) {
    orders.clear();
    EXPECT_TRUE(controller.handle({Time{}, std::move(what)}, orders).ok());
  };
  const planner::Plan before = planned.parallel.plan;
  for (int device = 0; device < 2; ++device) tell(control::DeviceJoined{device});
  tell(control::ReplicaJoined{ReplicaId(0), "w0+w1", before.replicas[0].samples, 0});
  tell(control::ReplicaLeft{ReplicaId(0), "w1 has no memory"});
  EXPECT_FALSE(controller.searching());
  tell(control::DeviceOutOfMemory{1});
  ASSERT_TRUE(controller.searching());
  for (const control::Order& order : std::vector(orders)) {
    if (const auto* one = std::get_if<control::SearchPlan>(&order)) tell(control::searched(*one));
  }
  std::optional<planner::Plan> adopted;
  for (const control::Order& order : orders) {
    if (const auto* plan = std::get_if<control::PlanAdopted>(&order)) adopted = plan->plan;
  }
  ASSERT_TRUE(adopted);
  EXPECT_FALSE(planner::same_stages(*adopted, before));
  EXPECT_FALSE(controller.handle({Time{}, control::DeviceOutOfMemory{2}}, orders).ok()) << "there is none";
}

// No replica is here yet.
TEST(Replanner, BeginsWithAnotherPlanIfADeviceHasNoRoomForItsStage) {
  const JobConfig planned = job("");
  control::Controller controller(controller_config(planned, 1000), policy::make_policy(planned.policy),
                                 replanner_of(planned).value());
  std::vector<control::Order> orders;
  const auto tell = [&](decltype(control::Fact::what) what) {
    orders.clear();
    return controller.handle({Time{}, std::move(what)}, orders);
  };
  ASSERT_TRUE(tell(control::DeviceJoined{0, 1'000'000'000}).ok());
  EXPECT_FALSE(controller.searching()) << "it has room";
  ASSERT_TRUE(tell(control::DeviceJoined{1, 400'000}).ok());
  ASSERT_TRUE(controller.searching());
  const auto* search = std::get_if<control::SearchPlan>(&orders.back());
  ASSERT_NE(search, nullptr);
  ASSERT_TRUE(tell(control::searched(control::SearchPlan(*search))).ok());
  std::optional<planner::Plan> adopted;
  for (const control::Order& order : orders) {
    if (const auto* plan = std::get_if<control::PlanAdopted>(&order)) adopted = plan->plan;
  }
  ASSERT_TRUE(adopted);
  EXPECT_FALSE(planner::same_stages(*adopted, planned.parallel.plan));
  EXPECT_FALSE(tell(control::DeviceJoined{0, -1}).ok());
}

// The replica would run out of memory again.
TEST(Replanner, FormsNoReplicaOfAPlanWithoutMemoryIfNoOtherIsKnown) {
  const JobConfig planned = job("");
  control::Controller controller(controller_config(planned, 1000), policy::make_policy(planned.policy),
                                 replanner_of(planned).value());
  std::vector<control::Order> orders;
  const auto tell = [&](decltype(control::Fact::what) what) {
    orders.clear();
    EXPECT_TRUE(controller.handle({Time{}, std::move(what)}, orders).ok());
  };
  for (int device = 0; device < 2; ++device) tell(control::DeviceJoined{device});
  tell(control::ReplicaJoined{ReplicaId(0), "w0+w1", planned.parallel.plan.replicas[0].samples, 0});
  tell(control::ReplicaLeft{ReplicaId(0), "w1 has no memory"});
  tell(control::DeviceOutOfMemory{1});
  tell(control::PlanSearched{});
  const auto any = [&]<class Order>(Order*) {
    return std::any_of(orders.begin(), orders.end(),
                       [](const auto& order) { return std::holds_alternative<Order>(order); });
  };
  EXPECT_FALSE(any(static_cast<control::PlanAdopted*>(nullptr)));
  EXPECT_TRUE(any(static_cast<control::NoPlan*>(nullptr)));
}

// All that a Controller with a planner was told and ordered, in a run whose second device leaves.
using Recorded = std::variant<control::Fact, std::pair<Time, control::Order>>;

std::vector<Recorded> record(const JobConfig& job, control::Controller& controller) {
  std::vector<Recorded> recording;
  std::vector<control::Order> orders;
  const auto tell = [&](double at_s, decltype(control::Fact::what) what) {
    const control::Fact fact{Time(from_seconds(at_s)), std::move(what)};
    orders.clear();
    EXPECT_TRUE(controller.handle(fact, orders).ok());
    recording.emplace_back(fact);
    for (const control::Order& order : orders) recording.emplace_back(std::pair(fact.at, order));
  };
  const auto search = [&](double at_s) {
    for (const control::Order& order : std::vector(orders)) {
      if (const auto* one = std::get_if<control::SearchPlan>(&order)) tell(at_s, control::searched(*one));
    }
  };
  const auto round = [&](double at_s, int replica, std::vector<Duration> worked) {
    Clock clock;
    for (const Recorded& one : recording) {
      const auto* order = std::get_if<std::pair<Time, control::Order>>(&one);
      const auto* release = order == nullptr ? nullptr : std::get_if<control::Release>(&order->second);
      if (release != nullptr && release->replica == ReplicaId(replica)) clock = release->clock;
    }
    control::ReplicaReady fact{ReplicaId(replica), clock, controller.version(), from_seconds(0.2)};
    fact.worked = std::move(worked);
    tell(at_s, fact);
  };
  for (int device = 0; device < 2; ++device) tell(0, control::DeviceJoined{device});
  tell(0, control::ReplicaJoined{ReplicaId(0), "w0+w1", job.parallel.plan.replicas[0].samples, 0});
  for (int i = 1; i <= 3; ++i) {
    round(0.2 * i, 0, {from_seconds(0.1), from_seconds(0.1)});
    search(0.2 * i + 0.05);
  }
  tell(0.7, control::ReplicaLeft{ReplicaId(0), "w1 is gone"});
  tell(0.7, control::DeviceLeft{1});
  search(0.8);
  tell(0.9, control::ReplicaJoined{ReplicaId(1), "w0", 16, 0});
  round(1.1, 1, {from_seconds(0.2)});
  return recording;
}

TEST(Replanner, IsDerivedAgainInAReplay) {
  const JobConfig planned = job("");
  const control::ControllerConfig config = controller_config(planned, 1000);
  const auto controller_of = [&] {
    return control::Controller(config, policy::make_policy(planned.policy), replanner_of(planned).value());
  };
  control::Controller controller = controller_of();
  std::vector<Recorded> recording = record(planned, controller);
  const auto replayed = [&](bool with_planner) {
    auto replay = control::Replay::make(config, policy::make_policy(planned.policy), std::nullopt,
                                        with_planner ? replanner_of(planned).value() : nullptr)
                      .value();
    for (const Recorded& one : recording) {
      if (const auto* fact = std::get_if<control::Fact>(&one)) {
        replay->on_fact(*fact);
      } else {
        const auto& [at, order] = std::get<std::pair<Time, control::Order>>(one);
        replay->on_order(at, order);
      }
    }
    return replay->difference();
  };
  EXPECT_EQ(replayed(true), std::nullopt);
  EXPECT_EQ(replayed(false), std::nullopt) << "plans are not looked at";
  control::PlanAdopted* adopted = nullptr;
  control::PlanSearched* searched = nullptr;
  for (Recorded& one : recording) {
    if (auto* fact = std::get_if<control::Fact>(&one)) {
      if (auto* found = std::get_if<control::PlanSearched>(&fact->what)) searched = found;
    } else if (auto* found = std::get_if<control::PlanAdopted>(&std::get<1>(one).second)) {
      adopted = found;
    }
  }
  ASSERT_NE(searched, nullptr);
  ASSERT_NE(adopted, nullptr);
  EXPECT_EQ(adopted->plan.replicas, (std::vector<planner::PlannedReplica>{{{0}, {}, 16}}));
  adopted->plan.replicas[0].samples = 15;
  EXPECT_THAT(replayed(true).value_or(""), testing::HasSubstr("15 samples on devices 0"));
  adopted->plan.replicas[0].samples = 16;
  searched->plan->replicas[0].devices = {99};
  EXPECT_THAT(replayed(true).value_or(""),
              testing::HasSubstr("the Controller orders: at 0.8 s: a plan is found"));
}

TEST(Replanner, RefusesWhatCannotBe) {
  const auto replanner = replanner_of(job("")).value();
  EXPECT_FALSE(replanner->joined({ReplicaId(0), "", 1, 1}).ok()) << "the plan has one place";
  EXPECT_FALSE(replanner->joined({ReplicaId(0), "", 1, -1}).ok());
  join(*replanner, 0, 0);
  control::ReplicaReady half{ReplicaId(0), Clock(1), Version(0)};
  half.worked = {Duration(1)};
  EXPECT_FALSE(replanner->check(half).ok()) << "it has two stages";
  EXPECT_FALSE(replanner->joined(control::DeviceJoined{2}).ok());
  EXPECT_FALSE(replanner->left(control::DeviceLeft{-1}).ok());
}

}  // namespace
}  // namespace paceline::config

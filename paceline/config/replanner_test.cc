// What a live run tells the planner, without any process: the Replanner of a job.
#include "paceline/control/replanner.h"

#include <gtest/gtest.h>

#include "paceline/config/planning.h"

namespace paceline::config {
namespace {

// Two devices of one pace, 6 layers of which either holds 5 at the most.
JobConfig job(const std::string& memory) {
  return parse_job(
             "parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\n[[replica]]\ncount = 2\npace_ms = 96\n" +
                 memory +
                 "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 16\n"
                 "[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 100\noutput_kb = 0.1\n",
             "job.toml")
      .value();
}

constexpr char kMemory[] = "memory_mb = 1.1\n";
using control::Replanner;
using Change = std::optional<Replanner::Change>;

absl::StatusOr<std::unique_ptr<Replanner>> replanner_of(const JobConfig& of) {
  return Replanner::create(*replanner_options(of, RunTime::kWall));
}

// One round of a pipeline in which w1 is so many times slower than its pace.
Change round(Replanner& replanner, const planner::PlannedReplica& replica, int number, double slowness) {
  const double layer_ms = 96.0 / 8 / 6 * 16;
  replanner.worked(replica, 0, 16, from_seconds(replica.cuts[0] * layer_ms / 1000));
  replanner.worked(replica, 1, 16, from_seconds((6 - replica.cuts[0]) * layer_ms * slowness / 1000));
  replanner.finished(ReplicaId(0), from_seconds(0.2));
  return replanner.end_batch(Time{} + from_seconds(number * 0.2)).value().change;
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

TEST(Replanner, LeavesAGoodPlanAlone) {
  const JobConfig good = job(kMemory);
  const auto replanner = replanner_of(good).value();
  for (int i = 1; i <= 100; ++i)
    ASSERT_FALSE(round(*replanner, good.parallel.plan.replicas[0], i, 1)) << "round " << i;
}

TEST(Replanner, SaysWhatABatchTookAndWhatWasPredicted) {
  const JobConfig planned = job(kMemory);
  const planner::PlannedReplica& replica = planned.parallel.plan.replicas[0];
  const auto replanner = replanner_of(planned).value();
  const control::PlanAdopted first = replanner->first(Time{});
  EXPECT_EQ(first.plan, planned.parallel.plan);
  EXPECT_GT(first.predicted_ms, 0);
  const auto done = [&](std::int64_t samples, double at_s) {
    replanner->worked(replica, 0, samples, from_seconds(0.06));
    replanner->worked(replica, 1, samples, from_seconds(0.05));
    replanner->finished(ReplicaId(0), from_seconds(0.1));
    return replanner->end_batch(Time(from_seconds(at_s))).value().batch;
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

TEST(Replanner, LeavesThePlanOfAPipelineAsItIs) {
  JobConfig fixed = job(kMemory);
  fixed.parallel.mode = Parallel::kPipeline;
  const auto replanner = replanner_of(fixed).value();
  for (int i = 1; i <= 80; ++i)
    ASSERT_FALSE(round(*replanner, fixed.parallel.plan.replicas[0], i, i > 40 ? 4 : 1));
}

TEST(Replanner, MovesLayersAwayFromADeviceThatBecameSlow) {
  const JobConfig uneven = job(kMemory);
  const planner::PlannedReplica& replica = uneven.parallel.plan.replicas[0];
  const auto replanner = replanner_of(uneven).value();
  for (int i = 1; i <= 40; ++i) ASSERT_FALSE(round(*replanner, replica, i, 1));
  Change change;
  for (int i = 41; i <= 80 && !change; ++i) change = round(*replanner, replica, i, 4);
  ASSERT_TRUE(change);
  ASSERT_EQ(change->adopted.plan.replicas.size(), 1u);
  const planner::PlannedReplica& now = change->adopted.plan.replicas[0];
  const std::size_t slow = now.devices[0] == 1 ? 0 : 1;
  EXPECT_LT(now.end(slow, 6) - now.begin(slow), 3);
  EXPECT_EQ(change->adopted.plan.micro_batch, 2);
  EXPECT_FALSE(change->adopted.why.empty());
  EXPECT_NE(change->line.find("w1"), std::string::npos) << change->line;
}

// Two devices that each hold the model, one of which becomes dear: costs settle at the budget, and time is
// bought with the rest.
TEST(Replanner, KeepsABudgetWhenPricesChange) {
  const JobConfig priced =
      parse_job(
          "parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\n[budget]\nmost = 6\nper = \"hour\"\n"
          "[[replica]]\ncount = 2\npace_ms = 96\nprice_per_hour = 1\n"
          "[[change]]\nreplica = 1\nat_s = 10\nprice_per_hour = 20\n"
          "[[pipeline]]\ndevices = [\"w0\"]\nsamples = 8\n[[pipeline]]\ndevices = [\"w1\"]\nsamples = 8\n"
          "[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 0.1\noutput_kb = 0.1\n",
          "job.toml")
          .value();
  const auto replanner = replanner_of(priced).value();
  planner::Plan plan = priced.parallel.plan;
  double now_s = 0, cost = 0, allowed = 0, queue_max = 0;
  int changes_before = 0, changes = 0;
  for (int i = 0; i < 4000; ++i) {
    double took_s = 0;
    for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
      const std::int64_t samples = 16 / static_cast<std::int64_t>(plan.replicas.size());
      const Duration compute = from_seconds(0.012 * static_cast<double>(samples));
      replanner->worked(plan.replicas[g], 0, samples, compute);
      replanner->finished(ReplicaId(static_cast<std::int32_t>(g)), compute);
      took_s = to_seconds(compute);
    }
    now_s += took_s;
    const auto ended = replanner->end_batch(Time(from_seconds(now_s))).value();
    if (ended.change) plan = ended.change->adopted.plan;
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
  double queue = 0;
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t g = 0; g < 2; ++g) {
      frozen->worked(kept.parallel.plan.replicas[g], 0, 8, from_seconds(0.096));
      frozen->finished(ReplicaId(static_cast<std::int32_t>(g)), from_seconds(0.096));
    }
    const auto ended = frozen->end_batch(Time(from_seconds(0.1 * (i + 1)))).value();
    if (ended.batch) queue = ended.batch->spending->queue;
  }
  EXPECT_GT(queue, 500);
}

TEST(Replanner, PlansAroundADeviceThatLeft) {
  const auto replanner = replanner_of(job("")).value();
  replanner->left(1);
  const Change change = replanner->give_up_batch(Time{}).value().change;
  ASSERT_TRUE(change);
  EXPECT_EQ(change->adopted.plan.replicas, (std::vector<planner::PlannedReplica>{{{0}, {}, 16}}));
}

TEST(Replanner, SaysWhenTheRestCannotHoldTheModel) {
  const auto replanner = replanner_of(job(kMemory)).value();
  replanner->left(1);
  EXPECT_EQ(replanner->give_up_batch(Time{}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Replanner, TakesADeviceInThatComes) {
  const auto replanner = replanner_of(job("")).value();
  replanner->left(1);
  ASSERT_TRUE(replanner->give_up_batch(Time{}).value().change);
  replanner->joined(1);
  const planner::PlannedReplica alone{{0}, {}, 16};
  Change change;
  for (int i = 1; i <= 60 && !change; ++i) {
    replanner->worked(alone, 0, 16, from_seconds(0.192));
    replanner->finished(ReplicaId(1), from_seconds(0.192));
    change = replanner->end_batch(Time{} + from_seconds(i * 0.195)).value().change;
  }
  ASSERT_TRUE(change);
  std::size_t devices = 0;
  for (const planner::PlannedReplica& replica : change->adopted.plan.replicas)
    devices += replica.devices.size();
  EXPECT_EQ(devices, 2u);
}

}  // namespace
}  // namespace paceline::config

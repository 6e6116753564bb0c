// What a live run tells the planner, without any process.
#include "paceline/rpc/replanner.h"

#include <gtest/gtest.h>

namespace paceline::rpc {
namespace {

// Two devices of one pace, 6 layers of which either holds 5 at the most.
config::JobConfig job(const std::string& memory) {
  return config::parse_job(
             "parallel = \"joint\"\nbatch = 8\nmicro_batch = 2\n[[replica]]\ncount = 2\npace_ms = 96\n" +
                 memory +
                 "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 16\n"
                 "[[layer]]\ncount = 6\nwork_ms = 2\nparameter_kb = 100\noutput_kb = 0.1\n",
             "job.toml")
      .value();
}

constexpr char kMemory[] = "memory_mb = 1.1\n";
using Change = std::optional<Replanner::Change>;

// One round of a pipeline in which w1 is so many times slower than its pace.
Change round(Replanner& replanner, const planner::PlannedReplica& replica, int number, double slowness) {
  const double layer_ms = 96.0 / 8 / 6 * 16;
  replanner.worked(replica, 0, 16, from_seconds(replica.cuts[0] * layer_ms / 1000));
  replanner.worked(replica, 1, 16, from_seconds((6 - replica.cuts[0]) * layer_ms * slowness / 1000));
  replanner.finished(ReplicaId(0), from_seconds(0.2));
  return replanner.end_round(Time{} + from_seconds(number * 0.2)).value();
}

TEST(Replanner, IsForJointJobsWithAPlanAlone) {
  config::JobConfig other = job("");
  EXPECT_NE(Replanner::create(other).value(), nullptr);
  other.parallel.mode = config::Parallel::kPipeline;
  EXPECT_EQ(Replanner::create(other).value(), nullptr);
  config::JobConfig wrong = job("");
  wrong.parallel.plan.replicas[0].cuts = {9};
  EXPECT_FALSE(Replanner::create(wrong).ok());
}

TEST(Replanner, LeavesAGoodPlanAlone) {
  const config::JobConfig good = job(kMemory);
  const auto replanner = Replanner::create(good).value();
  for (int i = 1; i <= 100; ++i)
    ASSERT_FALSE(round(*replanner, good.parallel.plan.replicas[0], i, 1)) << "round " << i;
}

TEST(Replanner, MovesLayersAwayFromADeviceThatBecameSlow) {
  const config::JobConfig uneven = job(kMemory);
  const planner::PlannedReplica& replica = uneven.parallel.plan.replicas[0];
  const auto replanner = Replanner::create(uneven).value();
  for (int i = 1; i <= 40; ++i) ASSERT_FALSE(round(*replanner, replica, i, 1));
  Change change;
  for (int i = 41; i <= 80 && !change; ++i) change = round(*replanner, replica, i, 4);
  ASSERT_TRUE(change);
  ASSERT_EQ(change->plan.replicas.size(), 1u);
  const planner::PlannedReplica& now = change->plan.replicas[0];
  const std::size_t slow = now.devices[0] == 1 ? 0 : 1;
  EXPECT_LT(now.end(slow, 6) - now.begin(slow), 3);
  EXPECT_EQ(change->plan.micro_batch, 2);
  EXPECT_EQ(change->why.rfind("re-planned: ", 0), 0u) << change->why;
  EXPECT_NE(change->line.find("w1"), std::string::npos) << change->line;
}

TEST(Replanner, PlansAroundADeviceThatLeft) {
  const auto replanner = Replanner::create(job("")).value();
  replanner->left(1);
  const Change change = replanner->give_up_round(Time{}).value();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->plan.replicas, (std::vector<planner::PlannedReplica>{{{0}, {}, 16}}));
}

TEST(Replanner, SaysWhenTheRestCannotHoldTheModel) {
  const auto replanner = Replanner::create(job(kMemory)).value();
  replanner->left(1);
  EXPECT_EQ(replanner->give_up_round(Time{}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Replanner, TakesADeviceInThatComes) {
  const auto replanner = Replanner::create(job("")).value();
  replanner->left(1);
  ASSERT_TRUE(replanner->give_up_round(Time{}).value());
  replanner->joined(1);
  const planner::PlannedReplica alone{{0}, {}, 16};
  Change change;
  for (int i = 1; i <= 60 && !change; ++i) {
    replanner->worked(alone, 0, 16, from_seconds(0.192));
    replanner->finished(ReplicaId(1), from_seconds(0.192));
    change = replanner->end_round(Time{} + from_seconds(i * 0.195)).value();
  }
  ASSERT_TRUE(change);
  std::size_t devices = 0;
  for (const planner::PlannedReplica& replica : change->plan.replicas) devices += replica.devices.size();
  EXPECT_EQ(devices, 2u);
}

}  // namespace
}  // namespace paceline::rpc

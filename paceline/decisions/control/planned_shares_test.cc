// The samples that a planner gives each replica, when replicas leave and come again: never more than a device has
// memory for.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::control {
namespace {

constexpr ReplicaId kPipeline(0), kSingle(1), kPipelineAgain(2);

// w0 and w1 form a pipeline with a micro-batch of 16 samples at a time, and w2 has the whole model. All are equally
// fast: by speed alone both replicas would get 32 samples. In w0, a micro-batch needs 16 kB beside 2 kB of weights and
// gradients, and two of them are under way if there are two.
class PlannedShares : public ::testing::Test {
 protected:
  void begin(std::int64_t memory_of_w0, std::int64_t of_pipeline, std::int64_t of_single) {
    samples_ = {of_pipeline, of_single};
    ReplannerOptions options;
    planner::Problem& problem = options.problem;
    problem.model.layers.assign(
        2,
        {.name = "unit", .work_ms = 1, .output_bytes = 1, .activation_bytes = 1000, .parameter_bytes = 1000});
    problem.cluster.devices.resize(3);
    problem.cluster.links.resize(9);
    problem.cluster.devices[0].memory_bytes = memory_of_w0;
    options.plan = {{{{0, 1}, {1}, of_pipeline}, {{2}, {}, of_single}}, 16};
    options.plans_anew = true;
    auto replanner = Replanner::create(std::move(options));
    ASSERT_TRUE(replanner.ok()) << replanner.status();
    ControllerConfig config;
    config.dataset_size = config.total_samples = 10'000;
    config.start_replicas = 2;
    config.uneven_data = true;
    controller_ = std::make_unique<Controller>(
        config, policy::make_policy(policy::parse_policy("bsp").value()), *std::move(replanner));
    tell(ReplicaJoined{kPipeline, "w0+w1", of_pipeline, 0});
    tell(ReplicaJoined{kSingle, "w2", of_single, 1});
  }

  // The searches that it orders find no other plan.
  void tell(decltype(Fact::what) what) {
    std::vector<Order> orders;
    const absl::Status taken = controller_->handle({Time{}, std::move(what)}, orders);
    ASSERT_TRUE(taken.ok()) << taken;
    for (const Order& order : orders) {
      if (const auto* release = std::get_if<Release>(&order)) released_[release->replica] = *release;
      adopted_ += std::holds_alternative<PlanAdopted>(order) ? 1 : 0;
    }
    if (controller_->searching()) tell(PlanSearched{});
  }

  void ready(ReplicaId replica) {
    const Release& release = released_.at(replica);
    const Duration all = std::chrono::milliseconds(2) * release.lease.size();
    ReplicaReady fact{replica, release.clock, controller_->version(), all};
    fact.worked = replica == kSingle ? std::vector{all} : std::vector{all / 2, all / 2};
    tell(std::move(fact));
  }
  void round() {
    ready(kPipeline);
    ready(kSingle);
  }
  void pipeline_leaves() { tell(ReplicaLeft{kPipeline, "its gradient is not finite"}); }
  // Its batch is its part of the plan that it is formed by.
  void pipeline_comes_again() { tell(ReplicaJoined{kPipelineAgain, "w0+w1", samples_.first, 0}); }
  std::int64_t samples_of(ReplicaId replica) const { return released_.at(replica).lease.size(); }
  int adopted() const { return adopted_; }

 private:
  std::pair<std::int64_t, std::int64_t> samples_;
  std::unique_ptr<Controller> controller_;
  std::map<ReplicaId, Release> released_;
  int adopted_ = 0;
};

TEST_F(PlannedShares, AreOfTheReplicaThatComesAgain) {
  begin(20'000, 16, 48);
  for (int i = 0; i < 3; ++i) {
    round();
    EXPECT_EQ(samples_of(kPipeline), 16);
    EXPECT_EQ(samples_of(kSingle), 48);
  }
  pipeline_leaves();
  ready(kSingle);
  EXPECT_EQ(samples_of(kSingle), 16) << "the samples that came back";
  pipeline_comes_again();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(samples_of(kPipelineAgain), 16);
    ready(kPipelineAgain);
    ready(kSingle);
    EXPECT_EQ(samples_of(kSingle), 48);
  }
}

TEST_F(PlannedShares, AreFewerForTheReplicaThatLeftForWantOfMemory) {
  begin(planner::Device::kNoLimit, 32, 32);
  round();
  pipeline_leaves();
  tell(DeviceOutOfMemory{0, 32});
  const int before = adopted();
  ready(kSingle);
  ASSERT_EQ(adopted(), before + 1) << "the same stages";
  pipeline_comes_again();
  EXPECT_EQ(samples_of(kPipelineAgain), 16);
  ready(kPipelineAgain);
  ready(kSingle);
  EXPECT_EQ(samples_of(kSingle), 48) << "the samples that the other one has no memory for";
}

TEST_F(PlannedShares, ADeviceIsTakenForSmallerThanWhatItHadNoMemoryForAndNotThanItsPlan) {
  begin(planner::Device::kNoLimit, 16, 48);
  pipeline_leaves();
  tell(DeviceOutOfMemory{0, 32});
  ready(kSingle);
  ASSERT_EQ(adopted(), 2) << "there is room for a micro-batch";
  pipeline_comes_again();
  EXPECT_EQ(samples_of(kPipelineAgain), 16);
}

}  // namespace
}  // namespace paceline::control

// The weights that a program gives reach the shares of uneven data.
#include "paceline/decisions/control/work_speeds.h"

#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::control {
namespace {

// The sizes of a slow replica's leases under BSP beside one that is three times as fast. Samples have 100 to 1,000
// tokens, which take the time.
std::vector<std::int64_t> leases_of_the_slow_one(bool tells) {
  ControllerConfig config;
  config.dataset_size = config.total_samples = 64 * 200;
  config.start_replicas = 2;
  config.uneven_data = true;
  Controller controller(config, policy::make_policy(policy::parse_policy("bsp").value()));
  Rng rng(3);
  std::vector<std::int64_t> sizes;
  std::vector<Order> orders;
  const auto handle = [&](const Fact& fact) { ASSERT_TRUE(controller.handle(fact, orders).ok()); };
  for (const int id : {0, 1}) handle({Time{}, ReplicaJoined{ReplicaId(id), "w" + std::to_string(id), 32}});
  while (!controller.finished()) {
    for (const Order& order : std::exchange(orders, {})) {
      const auto* release = std::get_if<Release>(&order);
      if (release == nullptr || controller.finished()) continue;
      const bool slow = release->replica == ReplicaId(0);
      if (slow) sizes.push_back(release->lease.size());
      const double tokens = static_cast<double>(release->lease.size()) * (100 + 900 * rng.uniform());
      handle({Time{}, ReplicaReady{.replica = release->replica,
                                   .clock = release->clock,
                                   .base = release->version,
                                   .compute = from_seconds(tokens * (slow ? 3e-6 : 1e-6)),
                                   .weight = tells ? std::optional(tokens) : std::nullopt}});
    }
  }
  return sizes;
}

TEST(WorkSpeeds, SharesFollowTheTokensOfASecondOnceTheyHavePredictedBetter) {
  const std::vector<std::int64_t> sizes = leases_of_the_slow_one(true);
  ASSERT_GT(sizes.size(), 100U);
  for (std::size_t round = 50; round + 1 < sizes.size(); ++round) EXPECT_EQ(sizes[round], 16) << round;
  const std::vector<std::int64_t> without = leases_of_the_slow_one(false);
  EXPECT_NE(std::count(without.begin() + 50, without.end() - 1, 16), std::ssize(without) - 51);
}

TEST(WorkSpeeds, GoBySamplesAsLongAsNothingPredictsBetter) {
  WorkSpeeds speeds;
  const ReplicaId replica(0);
  EXPECT_FALSE(speeds.ms_per_sample(replica));
  for (int i = 0; i < 20; ++i) speeds.finished(replica, 8, 800, 16);
  EXPECT_FALSE(speeds.by_weight()) << "both are exact";
  EXPECT_DOUBLE_EQ(speeds.ms_per_sample(replica).value(), 2);
  speeds.forget(replica);
  EXPECT_FALSE(speeds.ms_per_sample(replica));
}

}  // namespace
}  // namespace paceline::control

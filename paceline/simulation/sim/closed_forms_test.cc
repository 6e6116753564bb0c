// Results of the policies that can be worked out by hand: two replicas of 1.0 and 2.3 s, free communication,
// 4,000 iterations.
#include <gtest/gtest.h>

#include "paceline/simulation/sim/simulation.h"

namespace paceline::sim {
namespace {

report::Summary two_replicas(const std::string& policy, const std::string& parallel = "data") {
  const auto scenario = parse_scenario("parallel = \"" + parallel + R"("
iterations = 4000
[[device]]
compute_ms = 1000
[[device]]
compute_ms = 2300
)",
                                       "two.toml");
  return simulate(scenario.value(), policy::parse_policy(policy).value()).value().summary;
}

double iterations_per_s(const report::Summary& summary) {
  return static_cast<double>(summary.iterations) / summary.elapsed_s;
}

struct Form {
  std::string policy;
  double rate;
  std::int64_t least_gap;
  std::int64_t most_gap;
};

class ClosedForms : public ::testing::TestWithParam<Form> {};

TEST_P(ClosedForms, RateAndGap) {
  const report::Summary summary = two_replicas(GetParam().policy);
  EXPECT_EQ(summary.iterations, 4000);
  EXPECT_NEAR(iterations_per_s(summary), GetParam().rate, 0.01 * GetParam().rate);
  EXPECT_GE(summary.gap_max, GetParam().least_gap);
  EXPECT_LE(summary.gap_max, GetParam().most_gap);
}

INSTANTIATE_TEST_SUITE_P(Policies, ClosedForms,
                         ::testing::Values(Form{"bsp", 0.870, 1, 1}, Form{"ssp:3", 0.870, 4, 4},
                                           Form{"asp", 1.435, 1001, 4000},
                                           Form{"dssp:3-15:printed", 1.435, 1001, 4000},
                                           Form{"dssp:3-15", 0.870, 4, 16}));

TEST(TwoReplicas, ElasticBspIsNearlyAsynchronous) {
  EXPECT_GE(iterations_per_s(two_replicas("elastic-bsp:15")), 1.42);
}

// 256 samples shared out 178.4 : 77.6 take both 1.394 s.
TEST(TwoReplicas, BulkSynchronousWithUnevenDataWaitForNobody) {
  const report::Summary summary = two_replicas("bsp", "uneven-data");
  EXPECT_NEAR(iterations_per_s(summary), 2 / 1.394, 0.01);
  EXPECT_NEAR(summary.elapsed_s, 4000 / 1.435, 28);
}

}  // namespace
}  // namespace paceline::sim

// A few thousand runs with faults, in which every promise is kept; and runs of broken protocols, in each of
// which the fault is found.
#include <gtest/gtest.h>

#include "paceline/simulation/cluster_sim/run.h"

namespace paceline::cluster_sim {
namespace {

TEST(ClusterSim, EveryPromiseIsKept) {
  std::map<std::pair<coordinator::Phase, coordinator::Phase>, int> transitions;
  std::int64_t made_early = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Outcome outcome = run(seed);
    ASSERT_EQ(outcome.broken, "") << "to see it: ./dev sim --seed " << seed << " --trace";
    for (const auto& [way, count] : outcome.transitions) transitions[way] += count;
    made_early += outcome.made_early;
  }
  EXPECT_GT(made_early, 1000);
  for (const Transition<coordinator::Phase>& one : coordinator::transitions()) {
    EXPECT_GT((transitions[{one.from, one.to}]), 0)
        << "no run went from " << coordinator::name_of(one.from) << " to " << coordinator::name_of(one.to);
  }
}

TEST(ClusterSim, TheSameSeedIsTheSameRun) {
  for (const std::uint64_t seed : {3u, 4u, 17u})
    EXPECT_EQ(run(seed, true).trace, run(seed, true).trace) << seed;
}

class Broken : public testing::TestWithParam<int> {};

TEST_P(Broken, IsNoticed) {
  const auto broken = static_cast<Break>(GetParam());
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    if (!run(seed, false, broken).broken.empty()) return;
  }
  FAIL() << name_of(broken) << " was not noticed";
}

INSTANTIATE_TEST_SUITE_P(Protocol, Broken, testing::Range(1, kBreaks), [](const auto& one) {
  std::string name = name_of(static_cast<Break>(one.param));
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace paceline::cluster_sim

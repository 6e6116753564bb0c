// The example of docs/extending.md, held to what every policy is held to: an Observer that knows nothing of
// it.
#include "examples/extending/pairs.h"

#include <chrono>

#include <gtest/gtest.h>

#include "paceline/decisions/control/testing/little_cluster.h"

namespace example {
namespace {

paceline::control::ControllerConfig job(std::int64_t replicas) {
  paceline::control::ControllerConfig config;
  config.dataset_size = 60;
  config.total_samples = 150;
  config.start_replicas = replicas;
  return config;
}

TEST(Pairs, CommitsTwoAtATime) {
  paceline::control::testing::LittleCluster cluster(job(3), PairsSpec{}.make(), 1);
  for (int i = 0; i < 3; ++i)
    cluster.join("w" + std::to_string(i), 3, std::chrono::milliseconds(100 + 70 * i));
  cluster.run_until_finished();
  EXPECT_EQ(cluster.broken(), "");
  EXPECT_TRUE(cluster.finished());
  EXPECT_EQ(cluster.log().front().members.size(), 2u);
}

// Whatever the speeds, and whichever replicas come and go: each sample is committed once, and nobody waits
// for ever.
TEST(Pairs, KeepsWhatTheControllerPromises) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto replicas = static_cast<std::int64_t>(1 + seed % 5);
    paceline::control::testing::LittleCluster cluster(job(replicas), PairsSpec{}.make(), seed);
    for (int i = 0; i < replicas; ++i)
      cluster.join("w" + std::to_string(i), 2 + i, std::chrono::milliseconds(100 + 130 * i), 0.4);
    for (int i = 0; i < 4; ++i) cluster.step();
    cluster.join("late", 2, std::chrono::milliseconds(90), 0.4);
    for (int i = 0; i < 3; ++i) cluster.step();
    if (!cluster.finished()) cluster.leave(paceline::ReplicaId(0));
    cluster.run_until_finished();
    ASSERT_EQ(cluster.broken(), "") << "seed " << seed;
    ASSERT_TRUE(cluster.finished()) << "seed " << seed;
  }
}

TEST(Pairs, IsReadAsItIsWritten) {
  EXPECT_EQ(PairsSpec::parse(policy::PolicyText("pairs"))->text(), "pairs");
  EXPECT_FALSE(PairsSpec::parse(policy::PolicyText("pairs:2")).ok());
}

}  // namespace
}  // namespace example

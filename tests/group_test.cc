// Members of a commit that sum their gradients among themselves: training ends in the same bytes as when the
// servers sum.
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

struct Trained {
  std::map<std::string, std::string> weights;
  bool summed_with_others = false;  // w0 spent time on it
};

Trained train(const std::string& policy, const std::string& reduction, int servers) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "threads = 1");
  const Ended ended = run({"train", job.string(), "--set", "device=[{count=4}]", "--set", "model.width=128",
                           "--set", "sync.policy=" + policy, "--set", "cluster.reduction=" + reduction,
                           "--set", fmt::format("cluster.servers={}", servers)});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path run_folder = only_run(folder / "runs");
  const std::string log = read_text(run_folder / "logs" / "w0.log");
  EXPECT_NE(log.find("ms summing with others"), std::string::npos) << log;
  return {checkpoint_weights(run_folder), log.find(" 0.000 ms summing with others") == std::string::npos};
}

class Reduction : public testing::TestWithParam<int> {};

TEST_P(Reduction, InGroupsGivesTheBytesOfTheServers) {
  const Trained by_servers = train("bsp", "servers", GetParam());
  const Trained in_group = train("bsp", "group", GetParam());
  ASSERT_FALSE(by_servers.weights.empty());
  EXPECT_EQ(in_group.weights, by_servers.weights);
  EXPECT_FALSE(by_servers.summed_with_others);
  EXPECT_TRUE(in_group.summed_with_others);
}

INSTANTIATE_TEST_SUITE_P(Servers, Reduction, testing::Values(1, 3));

TEST(ReductionInGroups, IsChosenByTheJob) {
  EXPECT_FALSE(train("cgp:k_min=2", "servers", 1).summed_with_others);
  EXPECT_TRUE(train("cgp:k_min=2", "group", 1).summed_with_others);
}

}  // namespace
}  // namespace paceline::tests

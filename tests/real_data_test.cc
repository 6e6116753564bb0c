// Real data is trained to a sensible accuracy, on real processes. Skipped if the data is not there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/recorded_run.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

constexpr char kData[] = "../shared/data";

double best_accuracy(const fs::path& job_file, const std::vector<std::string>& sets) {
  const TempFolder folder;
  std::vector<std::string> arguments = {"train", job_file.string(), "--set",
                                        "runs_dir=" + (folder / "runs").string()};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const Ended ended = Program(arguments).wait(600);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  double best = 0;
  for (const auto& one : RecordedRun::read(only_run(folder / "runs")).evaluations)
    best = std::max(best, one.accuracy);
  return best;
}

// Trainings on an unequal cluster, with the accuracy that each must reach. The evaluator has the lowest priority, so it
// gets few samples: on a busy machine the end of a run waits for it.
class RealData : public testing::TestWithParam<const char*> {};

TEST_P(RealData, Mnist) {
  if (!fs::exists(fs::path(kData) / "mnist")) GTEST_SKIP() << kData << "/mnist is not here";
  const TempFolder folder;
  write_text(folder / "job.toml",
             "epochs = 3\nbatch = 32\n[model]\nname = \"mlp\"\nwidth = 64\n[optimizer]\nlr = 0.02\n"
             "[data]\ntest_samples = 1000\n[[device]]\ncount = 3\npace_ms = 12\n[[device]]\npace_ms = 36\n");
  EXPECT_GT(best_accuracy(folder / "job.toml", {std::string("data.source=mnist:") + kData + "/mnist",
                                                std::string("sync.policy=") + GetParam()}),
            0.80);  // chance is 0.1; asynchronous runs vary by a few points, more if processors are scarce
}

TEST_P(RealData, Cifar10) {
  if (!fs::exists(fs::path(kData) / "cifar10")) GTEST_SKIP() << kData << "/cifar10 is not here";
  const TempFolder folder;
  write_text(
      folder / "job.toml",
      "epochs = 1.5\nbatch = 32\n[model]\nname = \"cnn\"\n[optimizer]\nlr = 0.01\n"
      "[data]\ntest_samples = 1000\n[[device]]\ncount = 3\npace = \"1x\"\n[[device]]\npace = \"3x\"\n");
  EXPECT_GT(best_accuracy(folder / "job.toml", {std::string("data.source=cifar10:") + kData + "/cifar10",
                                                std::string("sync.policy=") + GetParam()}),
            0.25);  // chance is 0.1; asynchronous runs vary by a few points
}

TEST(VirtualTime, SixtyFourReplicasOfAResNetAtOnce) {
  if (!fs::exists(fs::path(kData) / "cifar10")) GTEST_SKIP() << kData << "/cifar10 is not here";
  const TempFolder folder;
  write_text(folder / "job.toml", fmt::format("runs_dir = \"{}\"\nepochs = 2\nbatch = 8\n[model]\nname = "
                                              "\"resnet20\"\n[data]\nsource = \"cifar10:{}/cifar10\"\n"
                                              "train_samples = 1024\ntest_samples = 100\n"
                                              "[[device]]\ncount = 64\njitter = 0.2\n",
                                              (folder / "runs").string(), kData));
  const Ended ended =
      Program({"train", (folder / "job.toml").string(), "--virtual", "--set", "sync.policy=asp"}).wait(600);
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const RecordedRun recorded = RecordedRun::read(only_run(folder / "runs"));
  // Each of the 64 was computing on weights of its own when the others committed.
  std::int64_t most_stale = 0;
  for (const auto& [at, commit] : recorded.commits)
    most_stale = std::max(most_stale, commit.version - commit.members.front().base - 1);
  EXPECT_GE(most_stale, 63);
  EXPECT_EQ(recorded.commits.size(), 256u);
}

INSTANTIATE_TEST_SUITE_P(Policies, RealData, testing::Values("bsp", "asp", "dssp:3-15"), [](const auto& one) {
  return std::string(one.param).substr(0, std::string(one.param).find(':'));
});

}  // namespace
}  // namespace paceline::tests

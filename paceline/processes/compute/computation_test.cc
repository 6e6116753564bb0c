// A real program at the other end, and the memory in which servers look for a gradient.
#include "paceline/processes/compute/computation.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

using ::testing::Each;

class ComputationTest : public ::testing::Test {
 protected:
  ComputationTest() {
    welcome_.set_job_toml(
        fmt::format("[program]\nrun = \"{}\"\n",
                    std::filesystem::absolute("paceline/computing/program/testdata/program.py").string()));
    std::ofstream(job_file_) << welcome_.job_toml();
  }
  std::unique_ptr<Computation> create(OwnEngine& own) {
    auto made = Computation::create(welcome_, "w0", "", own, traffic_, [](auto) { return false; });
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  static std::vector<float> gradient_of(Computation& computation) {
    const std::span<const float> floats = computation.gradient().gradient();
    return {floats.begin(), floats.end()};
  }

  const std::string job_file_ = ::testing::TempDir() + "computation_test.toml";
  wire::Welcome welcome_;
  StageTraffic traffic_;
};

TEST_F(ComputationTest, TheFirstWeightsAreThereUntilTheServersHaveStarted) {
  OwnEngine own(OwnEngine::Use::kTrain, job_file_);
  const auto computation = create(own);
  const std::string path = computation->attached().gradient_path();
  const auto weights = memory::GradientReader::open(path, computation->layout().size());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->gradient(Clock(0))->front(), 1);
  ASSERT_TRUE(computation->servers_started().ok());
  EXPECT_NE(computation->gradient().path(), path);
  EXPECT_THAT(gradient_of(*computation), Each(0));
}

TEST_F(ComputationTest, AWorkerOfServersThatHaveWeightsWritesNone) {
  welcome_.set_started(true);
  OwnEngine own(OwnEngine::Use::kTrain, job_file_);
  const auto computation = create(own);
  EXPECT_THAT(gradient_of(*computation), Each(0));
}

}  // namespace
}  // namespace paceline::compute

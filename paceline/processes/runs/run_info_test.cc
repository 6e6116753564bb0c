#include "paceline/processes/runs/run_info.h"

#include <gtest/gtest.h>

namespace paceline::runs {
namespace {

report::AskedPace pace_of(const std::string& text, report::World world = report::World::kLive) {
  return run_info(config::parse_job(text, "job.toml").value(), world, 100, 100).asked_pace;
}

std::optional<Duration> asked(const report::AskedPace& pace, const std::string& replica, std::int64_t samples,
                              std::int64_t steps = 0) {
  return pace({replica, Clock(1), Time{}, samples, steps});
}

constexpr char kPaced[] = "batch = 10\n[[device]]\npace_ms = 100\n[[device]]\npace = \"3x\"\n";

TEST(RunInfo, KnowsThePacesThatAreGivenInMilliseconds) {
  const report::AskedPace pace = pace_of(kPaced);
  EXPECT_EQ(asked(pace, "w0", 10), from_seconds(0.1));
  EXPECT_EQ(asked(pace, "w0", 3), from_seconds(0.1)) << "the last batch of an epoch takes as long";
  EXPECT_EQ(asked(pace, "w0", 40, 4), from_seconds(0.4)) << "of four local steps";
  EXPECT_EQ(asked(pace, "w1", 10), std::nullopt);
  EXPECT_EQ(asked(pace, "w7", 10), std::nullopt);
}

TEST(RunInfo, TheMethodOfPlannedWorkNamesItsPlanner) {
  const auto method = [](const char* text) { return method_of(config::parse_job(text, "job.toml").value()); };
  EXPECT_EQ(method("[sync]\npolicy = \"ssp:3\"\n"), "ssp:3");
  EXPECT_EQ(method("parallel = \"uneven-data\"\n[sync]\npolicy = \"bsp\"\n"), "bsp, uneven-data");
}

TEST(RunInfo, APaceIsForTheBatchWhereSamplesAreUneven) {
  EXPECT_EQ(asked(pace_of(std::string("parallel = \"uneven-data\"\n") + kPaced), "w0", 5),
            from_seconds(0.05));
}

TEST(RunInfo, NoPaceCanBeMissedInVirtualTime) {
  EXPECT_FALSE(pace_of(kPaced, report::World::kVirtual));
  EXPECT_FALSE(pace_of("[[device]]\n"));
}

TEST(RunInfo, ReadsWhatItWroteOfUsedWeights) {
  const report::UsedWeights used{12.5, 0.1, 0.30000000000000004, 0.2, 1e-9};
  EXPECT_EQ(used_weights_in({{kUsedWeightsKey, to_text(used)}}), used);
  for (const char* text : {"", "1 2 3 4", "1 2 3 4 5 6", "1 2 3 4 nan", "1 2  4 5"})
    EXPECT_EQ(used_weights_in({{kUsedWeightsKey, text}}), std::nullopt) << text;
  EXPECT_EQ(used_weights_in({}), std::nullopt);
}

}  // namespace
}  // namespace paceline::runs

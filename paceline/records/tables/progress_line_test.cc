#include "paceline/records/tables/progress_line.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/records/tables/terminal_text.h"

namespace paceline::report {
namespace {

Summary half_way() {
  Summary summary;
  summary.run.total_samples = 1000;
  summary.samples = 500;
  summary.samples_per_s = 2.5;
  summary.elapsed_s = 200;
  summary.training_loss = 0.8124;
  summary.last_evaluation = control::Evaluated{{}, Version(3), 400, 0.9, 0.7123};
  summary.wait_share = 0.128;
  summary.gap = 2;
  summary.replicas.resize(4);
  for (std::size_t i = 0; i < 4; ++i) summary.replicas[i].name = "w" + std::to_string(i);
  summary.replicas[3].doing = Doing::kGone;
  return summary;
}

TEST(ProgressLine, SaysEverythingWhenThereIsRoom) {
  EXPECT_EQ(progress_line(half_way(), 120),
            "██████████████                 50 %  2.5 samples/s  loss 0.8124  accuracy 71.2 %  wait 13 %  "
            "gap 2  3/4 live  "
            "3m20s left");
}

TEST(ProgressLine, ASmallLossIsNotZero) {
  Summary summary = half_way();
  summary.training_loss = 2.125e-5;
  EXPECT_NE(progress_line(summary, 120).find("  loss 2.125e-05  "), std::string::npos);
}

TEST(ProgressLine, NorIsASmallTestLoss) {
  Summary summary = half_way();
  summary.last_evaluation = control::Evaluated{{}, Version(1), 8, 2.125e-5, NAN};
  EXPECT_NE(progress_line(summary, 120).find("  test loss 2.125e-05  "), std::string::npos);
}

TEST(ProgressLine, AReplicaThatCameAgainIsCountedOnce) {
  Summary summary = half_way();
  summary.replicas.push_back(summary.replicas[3]);
  EXPECT_NE(progress_line(summary, 120).find("  3/4 live  "), std::string::npos);
}

// Each plan groups devices in another way, and a group's name is its devices'.
TEST(ProgressLine, ReplicasOfEarlierPlansAreNotMissing) {
  Summary summary = half_way();
  summary.replicas[2].doing = Doing::kGone;
  summary.plan.emplace().plan.replicas.resize(2);
  EXPECT_NE(progress_line(summary, 120).find("  2/2 live  "), std::string::npos)
      << progress_line(summary, 120);
}

TEST(ProgressLine, PromisesNothingOfTheWallInAModelledWorld) {
  Summary summary = half_way();
  summary.run.world = World::kVirtual;
  EXPECT_EQ(progress_line(summary, 60), "█████        50 %  2.5 samples/s  loss 0.8124  200 virtual s");
}

TEST(ProgressLine, LeavesOutWhatMattersLess) {
  EXPECT_EQ(progress_line(half_way(), 50), "████████           50 %  2.5 samples/s  3m20s left");
  EXPECT_EQ(progress_line(half_way(), 10), " 50 %");
}

TEST(ProgressLine, InALogThereIsNoBarAndNothingIsLeftOut) {
  EXPECT_EQ(progress_line(half_way(), kNoTerminal),
            " 50 %  2.5 samples/s  loss 0.8124  accuracy 71.2 %  wait 13 %  gap 2  3/4 live  3m20s left");
}

TEST(ProgressLine, SaysThePlanAndWhatABatchTakes) {
  Summary summary = half_way();
  summary.run.devices = {"w0", "w1", "w2"};
  summary.plan = PlanSummary{{{{{0, 2}, {3}, 16}, {{1}, {}, 8}}, 4}, 2, {5, 480, 500}, 96.4, 100, 0.05};
  const std::string line = progress_line(summary, 170);
  EXPECT_NE(line.find("batch 100 ms, predicted 96.4  "), std::string::npos) << line;
  EXPECT_NE(line.find("plan w0→w2:16 w1:8  2 re-plans  "), std::string::npos) << line;
}

Summary grouping() {
  Summary summary = half_way();
  summary.groups = {.gradients = 8,
                    .size_mean = 2,
                    .size_of_late = 2.62,
                    .size_max = 3,
                    .between = true,
                    .latest_size = 3,
                    .latest_cause = "path free"};
  return summary;
}

TEST(ProgressLine, SaysHowGroupsForm) {
  EXPECT_EQ(progress_line(grouping(), 140),
            "█████████            50 %  2.5 samples/s  loss 0.8124  accuracy 71.2 %  wait 13 %  "
            "groups 2.6  now 3: path free  gap 2  3/4 live  3m20s left");
  EXPECT_EQ(progress_line(grouping(), 95),
            "████       50 %  2.5 samples/s  loss 0.8124  accuracy 71.2 %  wait 13 %  groups 2.6  3m20s left")
      << "rather than the gap";
}

TEST(ProgressLine, SaysNothingOfGroupsThatAreOneOrAll) {
  Summary summary = grouping();
  summary.groups.between = false;
  EXPECT_EQ(progress_line(summary, 120), progress_line(half_way(), 120));
}

TEST(ProgressLine, ACauseCannotCommandTheTerminal) {
  Summary summary = grouping();
  summary.groups.latest_cause = "\x1b[31m";
  EXPECT_EQ(progress_line(summary, 140).find('\x1b'), std::string::npos);
}

TEST(ProgressLine, NeverExceedsTheWidth) {
  Summary huge = half_way();
  huge.samples_per_s = 1e18;
  huge.training_loss = 1e300;
  huge.gap = std::numeric_limits<std::int64_t>::max();
  Summary broken = half_way();
  broken.training_loss = std::numeric_limits<double>::quiet_NaN();
  broken.samples_per_s = std::numeric_limits<double>::infinity();
  for (int width = 1; width <= 400; ++width) {
    for (const Summary& summary : {half_way(), grouping(), huge, broken, Summary{}}) {
      ASSERT_LE(columns(progress_line(summary, width)), static_cast<std::size_t>(width)) << width;
    }
  }
}

TEST(ProgressLine, UsesTheRoomItHas) {
  for (int width = 20; width <= 100; ++width)
    EXPECT_GE(columns(progress_line(half_way(), width)), 20U) << width;
}

TEST(ProgressLine, AHundredPercentIsSaidWhenItIsTrue) {
  Summary summary = half_way();
  summary.samples = 999;
  EXPECT_EQ(progress_line(summary, 19), " 99 %  0s left");
  summary.samples = 1000;
  summary.finished = true;
  EXPECT_EQ(progress_line(summary, 19), "100 %  in 3m20s");
}

}  // namespace
}  // namespace paceline::report

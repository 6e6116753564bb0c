#include "paceline/records/pages/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace paceline::report {
namespace {

TEST(Metrics, ASnapshotIsOneLineOfTheDocumentedKeys) {
  Summary summary;
  summary.run.total_samples = 1000;
  summary.at = Time(from_seconds(2.5));
  summary.samples = 640;
  summary.samples_per_s = 256;
  summary.iterations = 12;
  summary.commits = 10;
  summary.wait_share = 0.25;
  summary.gap = 1;
  summary.gap_max = 3;
  summary.staleness_mean = 1.5;
  summary.staleness_max = 4;
  summary.epochs = 4;
  summary.groups.size_mean = 1.25;
  summary.groups.size_of_late = 2.5;
  summary.replicas.resize(2);
  summary.training_metrics = {{"f1", 0.5}};
  EXPECT_EQ(
      metrics_line(summary),
      R"({"kind":"snapshot","world":"live","time_s":2.5,"samples":640,"total_samples":1000,"samples_per_s":256.0,)"
      R"("iterations":12,"commits":10,"wait_share":0.25,"gap":1,"gap_max":3,"staleness_mean":1.5,)"
      R"("staleness_max":4,"commits_per_epoch":2.5,"group_size_mean":1.25,"group_size_of_late":2.5,)"
      R"("training_loss":null,"training_metrics":{"f1":0.5},"replicas_live":2,"plan":null,"finished":false})");
}

TEST(Metrics, ASnapshotOfAPlannedRunHasThePlan) {
  Summary summary;
  summary.run.devices = {"w0", "w1"};
  summary.run.layers = 6;
  summary.plan = PlanSummary{{{{{1, 0}, {4}, 16}}, 2}, 3, {2, 190, 200}, 95, 100, 0.05};
  EXPECT_THAT(metrics_line(summary),
              ::testing::HasSubstr(
                  R"("plan":{"words":"w1 → w0 (layers 0-3 | 4-5) 16 samples, in micro-batches of 2",)"
                  R"("re_plans":3,"batch_ms":100.0,"predicted_ms":95.0})"));
}

TEST(Metrics, AnEvaluation) {
  EXPECT_EQ(
      metrics_line(control::Evaluated{Time(from_seconds(3)), Version(7), 448, 0.5, 0.875}),
      R"({"kind":"evaluation","time_s":3.0,"version":7,"samples":448,"loss":0.5,"accuracy":0.875,"metrics":{}})");
  EXPECT_EQ(metrics_line(control::Evaluated{Time{}, Version(7), 448, 0.5, std::nan(""), {{"f1", 0.25}}}),
            R"({"kind":"evaluation","time_s":0.0,"version":7,"samples":448,"loss":0.5,"accuracy":null,)"
            R"("metrics":{"f1":0.25}})");
}

TEST(Metrics, WritesNullForNaN) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(
      metrics_line(control::Evaluated{Time{}, Version(7), 448, infinite, -infinite}),
      R"({"kind":"evaluation","time_s":0.0,"version":7,"samples":448,"loss":null,"accuracy":null,"metrics":{}})");
}

}  // namespace
}  // namespace paceline::report

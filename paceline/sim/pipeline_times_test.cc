// Two recurrences for the same schedule: the planner's, which knows links, and that of the steps which live
// stages run. Where links are free they are one.
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/collective/pipeline_schedule.h"
#include "paceline/planner/timeline.h"

namespace paceline::sim {
namespace {

TEST(PipelineTimes, ThePlannersAreThoseOfTheLiveSchedule) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t stages = 1 + rng.below(6), micros = 1 + rng.below(12);
    planner::PipelineTimes times;
    std::vector<std::vector<collective::StageTime>> steps;
    for (std::size_t s = 0; s < stages; ++s) {
      // Whole nanoseconds, so that both are exact.
      const auto forward = static_cast<std::int64_t>(1000 + rng.below(1'000'000));
      const auto backward = static_cast<std::int64_t>(1000 + rng.below(2'000'000));
      times.forward_ms.push_back(static_cast<double>(forward) / 1e6);
      times.backward_ms.push_back(static_cast<double>(backward) / 1e6);
      steps.emplace_back(micros, collective::StageTime{Duration(forward), Duration(backward)});
      if (s == 0) continue;
      times.links.emplace_back();
      times.bytes.push_back(0);
    }
    ASSERT_NEAR(planner::pipeline_ms(times, static_cast<std::int64_t>(micros)),
                to_seconds(collective::pipeline_time(steps)) * 1000, 1e-9)
        << i;
  }
}

}  // namespace
}  // namespace paceline::sim

// The planner's times are those of the steps that live stages run: its recurrence against stages that go
// through their steps, each as soon as its neighbours let it. Links are free.
#include <algorithm>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/collective/pipeline_schedule.h"
#include "paceline/planner/timeline.h"

namespace paceline::sim {
namespace {

using collective::PipelineOp;
using collective::PipelineStep;

class Stages {
 public:
  Stages(const planner::PipelineTimes& times, std::int64_t micros)
      : times_(times), stages_(times.forward_ms.size()), clocks_(stages_, 0), next_(stages_, 0) {
    for (std::size_t s = 0; s < stages_; ++s)
      steps_.push_back(collective::pipeline_steps(static_cast<int>(s), static_cast<int>(stages_), micros));
  }

  // Nothing when they wait for each other for ever.
  std::optional<double> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_; ++s) {
        while (next_[s] < steps_[s].size() && take(s, steps_[s][next_[s]])) {
          ++next_[s];
          moved = true;
        }
      }
    }
    for (std::size_t s = 0; s < stages_; ++s) {
      if (next_[s] < steps_[s].size()) return std::nullopt;
    }
    return *std::max_element(clocks_.begin(), clocks_.end());
  }

 private:
  using Message = std::pair<std::size_t, std::int64_t>;  // from, micro-batch

  bool take(std::size_t stage, const PipelineStep& step) {
    double& clock = clocks_[stage];
    switch (step.op) {
      case PipelineOp::kForward:
        clock += times_.forward_ms[stage];
        return true;
      case PipelineOp::kBackward:
        clock += times_.backward_ms[stage];
        return true;
      case PipelineOp::kSendOutput:
        outputs_[{stage, step.micro}] = clock;
        return true;
      case PipelineOp::kSendGradient:
        gradients_[{stage, step.micro}] = clock;
        return true;
      case PipelineOp::kReceiveInput:
        return receive(outputs_, {stage - 1, step.micro}, clock);
      case PipelineOp::kReceiveGradient:
        return receive(gradients_, {stage + 1, step.micro}, clock);
    }
    return false;
  }

  static bool receive(const std::map<Message, double>& sent, const Message& message, double& clock) {
    const auto found = sent.find(message);
    if (found == sent.end()) return false;
    clock = std::max(clock, found->second);
    return true;
  }

  const planner::PipelineTimes& times_;
  const std::size_t stages_;
  std::vector<std::vector<PipelineStep>> steps_;
  std::vector<double> clocks_;  // ms
  std::vector<std::size_t> next_;
  std::map<Message, double> outputs_, gradients_;  // when they were sent
};

TEST(PipelineTimes, ThePlannersAreThoseOfTheLiveSchedule) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t stages = 1 + rng.below(6);
    const auto micros = static_cast<std::int64_t>(1 + rng.below(12));
    planner::PipelineTimes times;
    for (std::size_t s = 0; s < stages; ++s) {
      times.forward_ms.push_back(0.1 + rng.uniform());
      times.backward_ms.push_back(0.1 + 2 * rng.uniform());
      if (s == 0) continue;
      times.links.emplace_back();
      times.bytes.push_back(0);
    }
    const auto taken = Stages(times, micros).run();
    ASSERT_TRUE(taken.has_value()) << i;
    ASSERT_NEAR(planner::pipeline_ms(times, micros), *taken, 1e-9) << i;
  }
}

}  // namespace
}  // namespace paceline::sim

// The planner's times are those of the steps that live stages run: its recurrence against stages that go
// through their steps, each as soon as its neighbours let it. Links are free.
#include <algorithm>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/decisions/planner/timeline.h"
#include "paceline/transport/collective/pipeline_schedule.h"

namespace paceline::sim {
namespace {

using collective::PipelineOp;
using collective::PipelineStep;

class Devices {
 public:
  Devices(const planner::PipelineTimes& times, std::int64_t micros) : times_(times) {
    std::vector<std::size_t> widths;
    for (const planner::StageTimes& stage : times.stages) widths.push_back(stage.forward_ms.size());
    for (std::size_t stage = 0; stage < widths.size(); ++stage) {
      for (std::size_t turn = 0; turn < widths[stage]; ++turn)
        devices_.push_back({stage, turn, collective::pipeline_steps({stage, turn, widths}, micros)});
    }
  }

  // Nothing when they wait for each other for ever.
  std::optional<double> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Device& device : devices_) {
        while (device.next < device.steps.size() && take(device, device.steps[device.next])) {
          ++device.next;
          moved = true;
        }
      }
    }
    double end = 0;
    for (const Device& device : devices_) {
      if (device.next < device.steps.size()) return std::nullopt;
      end = std::max(end, device.clock);
    }
    return end;
  }

 private:
  struct Device {
    std::size_t stage, turn;
    std::vector<PipelineStep> steps;
    std::size_t next = 0;
    double clock = 0;  // ms
  };
  using Message = std::pair<std::size_t, std::int64_t>;  // stage that sent it, micro-batch

  bool take(Device& device, const PipelineStep& step) {
    const std::size_t stage = device.stage;
    switch (step.op) {
      case PipelineOp::kForward:
        device.clock += times_.stages[stage].forward_ms[device.turn];
        return true;
      case PipelineOp::kBackward:
        device.clock += times_.stages[stage].backward_ms[device.turn];
        return true;
      case PipelineOp::kForwardBackward:
        device.clock += times_.stages[stage].forward_ms[device.turn];
        device.clock += times_.stages[stage].backward_ms[device.turn];
        return true;
      case PipelineOp::kSendOutput:
        outputs_[{stage, step.micro}] = device.clock;
        return true;
      case PipelineOp::kSendGradient:
        gradients_[{stage, step.micro}] = device.clock;
        return true;
      case PipelineOp::kReceiveInput:
        return receive(outputs_, {stage - 1, step.micro}, device.clock);
      case PipelineOp::kReceiveGradient:
        return receive(gradients_, {stage + 1, step.micro}, device.clock);
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
  std::vector<Device> devices_;
  std::map<Message, double> outputs_, gradients_;  // times at which they were sent
};

// Every other pipeline has stages on up to three devices.
TEST(PipelineTimes, ThePlannersAreThoseOfTheLiveSchedule) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t stages = 1 + rng.below(6);
    const auto micros = static_cast<std::int64_t>(1 + rng.below(12));
    planner::PipelineTimes times;
    for (std::size_t s = 0; s < stages; ++s) {
      planner::StageTimes& stage = times.stages.emplace_back();
      const std::size_t width = i % 2 == 0 ? 1 : 1 + rng.below(3);
      for (std::size_t turn = 0; turn < width; ++turn) {
        stage.forward_ms.push_back(0.1 + rng.uniform());
        stage.backward_ms.push_back(0.1 + 2 * rng.uniform());
      }
      if (s > 0) stage.links.resize(width * times.stages[s - 1].forward_ms.size());
    }
    const auto taken = Devices(times, micros).run();
    ASSERT_TRUE(taken.has_value()) << i;
    ASSERT_NEAR(planner::pipeline_ms(times, micros), *taken, 1e-9) << i;
  }
}

}  // namespace
}  // namespace paceline::sim

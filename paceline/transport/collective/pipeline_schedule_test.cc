// Tests of the schedule of every small pipeline: no pass is left out, no micro-batch is kept too long, and no
// device waits for ever.
#include "paceline/transport/collective/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "paceline/base/stage_turns.h"

namespace paceline::collective {
namespace {

using Widths = std::vector<std::size_t>;

constexpr std::int64_t kMostMicros = 13;

// Up to five stages of one device, and up to four of one to three.
std::vector<Widths> every_widths() {
  std::vector<Widths> all;
  for (std::size_t stages = 1; stages <= 4; ++stages) {
    Widths widths(stages, 1);
    for (bool more = true; more;) {
      all.push_back(widths);
      std::size_t s = 0;
      while (s < stages && widths[s] == 3) widths[s++] = 1;
      more = s < stages;
      if (more) ++widths[s];
    }
  }
  all.push_back(Widths(5, 1));
  all.push_back(Widths(6, 1));
  return all;
}

template <class Function>
void for_every_pipeline(Function function) {
  for (const Widths& widths : every_widths()) {
    for (std::int64_t micros = 0; micros <= kMostMicros; ++micros) {
      std::string name;
      for (const std::size_t width : widths) name += std::to_string(width) + " ";
      SCOPED_TRACE(name + "devices a stage, " + std::to_string(micros) + " micro-batches");
      function(widths, micros);
    }
  }
}

std::string pipeline_text(const std::vector<PipelineStep>& steps) {
  std::string all;
  for (const auto& [op, micro] : steps) {
    const char* names[] = {"<x", "F", "x>", "<g", "B", "FB", "g>"};
    all += (all.empty() ? "" : " ") + std::string(names[static_cast<int>(op)]) + std::to_string(micro);
  }
  return all;
}

TEST(PipelineSchedule, TwoStagesWrittenOut) {
  EXPECT_EQ(pipeline_text(pipeline_steps({0, 0, {1, 1}}, 3)), "F0 x>0 F1 x>1 <g0 B0 F2 x>2 <g1 B1 <g2 B2");
  EXPECT_EQ(pipeline_text(pipeline_steps({1, 0, {1, 1}}, 3)), "<x0 FB0 g>0 <x1 FB1 g>1 <x2 FB2 g>2");
  EXPECT_EQ(pipeline_text(pipeline_steps({0, 0, {1}}, 2)), "FB0 FB1");
  EXPECT_EQ(pipeline_text(pipeline_steps({0, 0, {1, 1, 1}}, 1)), "F0 x>0 <g0 B0");
}

TEST(PipelineSchedule, TwoDevicesShareAStageWrittenOut) {
  EXPECT_EQ(pipeline_text(pipeline_steps({0, 0, {2, 1}}, 5)), "F0 x>0 F2 x>2 <g0 B0 F4 x>4 <g2 B2 <g4 B4");
  EXPECT_EQ(pipeline_text(pipeline_steps({0, 1, {2, 1}}, 5)), "F1 x>1 F3 x>3 <g1 B1 <g3 B3");
  EXPECT_EQ(pipeline_text(pipeline_steps({1, 0, {2, 1}}, 2)), "<x0 FB0 g>0 <x1 FB1 g>1");
  EXPECT_EQ(pipeline_text(pipeline_steps({1, 1, {1, 2}}, 1)), "");
}

TEST(PipelineSchedule, EveryMicroBatchGoesForwardOnceAndThenBackwardOnce) {
  for_every_pipeline([](const Widths& widths, std::int64_t micros) {
    for (std::size_t stage = 0; stage < widths.size(); ++stage) {
      const bool last = stage + 1 == widths.size();
      std::int64_t all = 0;
      for (std::size_t turn = 0; turn < widths[stage]; ++turn) {
        const auto width = static_cast<std::int64_t>(widths[stage]);
        std::int64_t forward = static_cast<std::int64_t>(turn), backward = forward;
        std::set<std::pair<PipelineOp, std::int64_t>> seen;
        for (const auto& [op, micro] : pipeline_steps({stage, turn, widths}, micros)) {
          EXPECT_TRUE(seen.emplace(op, micro).second);
          const bool both = op == PipelineOp::kForwardBackward;
          EXPECT_FALSE(last ? op == PipelineOp::kForward || op == PipelineOp::kBackward : both);
          if (both || op == PipelineOp::kForward) {
            EXPECT_EQ(micro, forward);
            forward += width;
            ++all;
            EXPECT_EQ(seen.contains({PipelineOp::kReceiveInput, micro}), stage > 0);
          }
          if (op == PipelineOp::kSendOutput) {
            EXPECT_TRUE(seen.contains({PipelineOp::kForward, micro}));
          }
          if (both || op == PipelineOp::kBackward) {
            EXPECT_EQ(micro, backward);
            backward += width;
            EXPECT_EQ(seen.contains({PipelineOp::kForward, micro}), !last);
            EXPECT_EQ(seen.contains({PipelineOp::kReceiveGradient, micro}), !last);
            EXPECT_EQ(seen.contains({PipelineOp::kSendOutput, micro}), !last);
          }
          if (op == PipelineOp::kSendGradient) {
            EXPECT_TRUE(seen.contains({last ? PipelineOp::kForwardBackward : PipelineOp::kBackward, micro}));
            EXPECT_GT(stage, 0u);
          }
          EXPECT_LE((forward - backward) / width, kept_at_once(widths)[stage]);
        }
        EXPECT_EQ(forward, backward);
        const std::int64_t own = (forward - static_cast<std::int64_t>(turn)) / width;
        const std::int64_t sends = (stage > 0 ? 2 : 0) + (!last ? 2 : 0);
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(((last ? 1 : 2) + sends) * own));
      }
      EXPECT_EQ(all, micros);
    }
  });
}

TEST(PipelineSchedule, AStageKeepsNoMoreThanThereAreStagesBehindItWhereNoneIsShared) {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    for (std::size_t s = 0; s < stages; ++s)
      EXPECT_EQ(kept_at_once(Widths(stages, 1))[s], static_cast<std::int64_t>(stages - s));
  }
}

// Devices that take steps while their channels let them. A blocked device stays blocked until its neighbours
// move, and moving never blocks another, so whether all of them end does not depend on the order taken.
// Messages of a channel come in their order: one that is not what the receiver waits for would stay for ever.
class Devices {
 public:
  Devices(const Widths& widths, std::int64_t micros, std::size_t capacity)
      : widths_(widths), capacity_(capacity) {
    for (std::size_t stage = 0; stage < widths.size(); ++stage) {
      for (std::size_t turn = 0; turn < widths[stage]; ++turn)
        devices_.push_back({stage, turn, pipeline_steps({stage, turn, widths}, micros), 0});
    }
  }

  // Whether all of them end.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Device& device : devices_) {
        while (device.done < device.steps.size() && take(device, device.steps[device.done])) {
          ++device.done;
          moved = true;
        }
      }
    }
    return std::all_of(devices_.begin(), devices_.end(),
                       [](const Device& device) { return device.done == device.steps.size(); }) &&
           std::all_of(channels_.begin(), channels_.end(),
                       [](const auto& channel) { return channel.second.empty(); });
  }

 private:
  struct Device {
    std::size_t stage, turn;
    std::vector<PipelineStep> steps;
    std::size_t done;
  };
  using End = std::pair<std::size_t, std::size_t>;  // stage, turn

  std::deque<std::int64_t>& between(const Device& device, std::size_t other, std::int64_t micro, bool sends) {
    const End here{device.stage, device.turn};
    const End there{other, static_cast<std::size_t>(micro) % widths_[other]};
    return sends ? channels_[{here, there}] : channels_[{there, here}];
  }
  bool take(const Device& device, const PipelineStep& step) {
    switch (step.op) {
      case PipelineOp::kReceiveInput:
        return receive(between(device, device.stage - 1, step.micro, false), step.micro);
      case PipelineOp::kSendOutput:
        return send(between(device, device.stage + 1, step.micro, true), step.micro);
      case PipelineOp::kReceiveGradient:
        return receive(between(device, device.stage + 1, step.micro, false), step.micro);
      case PipelineOp::kSendGradient:
        return send(between(device, device.stage - 1, step.micro, true), step.micro);
      default:
        return true;
    }
  }
  static bool receive(std::deque<std::int64_t>& channel, std::int64_t micro) {
    if (channel.empty() || channel.front() != micro) return false;
    channel.pop_front();
    return true;
  }
  bool send(std::deque<std::int64_t>& channel, std::int64_t micro) const {
    if (channel.size() == capacity_) return false;
    channel.push_back(micro);
    return true;
  }

  const Widths widths_;
  const std::size_t capacity_;
  std::vector<Device> devices_;
  std::map<std::pair<End, End>, std::deque<std::int64_t>> channels_;
};

TEST(PipelineSchedule, SomeDeviceCanAlwaysGoOn) {
  for_every_pipeline([](const Widths& widths, std::int64_t micros) {
    for (const std::size_t capacity : {1, 2, 3}) EXPECT_TRUE(Devices(widths, micros, capacity).run());
  });
}

}  // namespace
}  // namespace paceline::collective

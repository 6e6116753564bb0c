// What a pipeline's schedule says, for every small pipeline: nothing is left out, nothing is kept too long,
// and nobody waits for ever.
#include "paceline/collective/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

constexpr int kMostStages = 6;
constexpr std::int64_t kMostMicros = 9;

template <class Function>
void for_every_pipeline(Function function) {
  for (int stages = 1; stages <= kMostStages; ++stages) {
    for (std::int64_t micros = 0; micros <= kMostMicros; ++micros) {
      SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(micros) + " micro-batches");
      function(stages, micros);
    }
  }
}

std::string pipeline_text(const std::vector<PipelineStep>& steps) {
  std::string all;
  for (const auto& [op, micro] : steps) {
    const char* names[] = {"<x", "F", "x>", "<g", "B", "g>"};
    all += (all.empty() ? "" : " ") + std::string(names[static_cast<int>(op)]) + std::to_string(micro);
  }
  return all;
}

TEST(PipelineSchedule, TwoStagesWrittenOut) {
  EXPECT_EQ(pipeline_text(pipeline_steps(0, 2, 3)), "F0 x>0 F1 x>1 <g0 B0 F2 x>2 <g1 B1 <g2 B2");
  EXPECT_EQ(pipeline_text(pipeline_steps(1, 2, 3)), "<x0 F0 B0 g>0 <x1 F1 B1 g>1 <x2 F2 B2 g>2");
  EXPECT_EQ(pipeline_text(pipeline_steps(0, 1, 2)), "F0 B0 F1 B1");
  EXPECT_EQ(pipeline_text(pipeline_steps(0, 3, 1)), "F0 x>0 <g0 B0");
}

TEST(PipelineSchedule, EveryMicroBatchGoesForwardOnceAndThenBackwardOnce) {
  for_every_pipeline([](int stages, std::int64_t micros) {
    for (int stage = 0; stage < stages; ++stage) {
      std::int64_t forward = 0, backward = 0;
      std::set<std::pair<PipelineOp, std::int64_t>> seen;
      for (const auto& [op, micro] : pipeline_steps(stage, stages, micros)) {
        EXPECT_TRUE(seen.emplace(op, micro).second);
        if (op == PipelineOp::kForward) {
          EXPECT_EQ(micro, forward++);
          EXPECT_EQ(seen.contains({PipelineOp::kReceiveInput, micro}), stage > 0);
        }
        if (op == PipelineOp::kSendOutput) {
          EXPECT_TRUE(seen.contains({PipelineOp::kForward, micro}));
        }
        if (op == PipelineOp::kBackward) {
          EXPECT_EQ(micro, backward++);
          EXPECT_TRUE(seen.contains({PipelineOp::kForward, micro}));
          EXPECT_EQ(seen.contains({PipelineOp::kReceiveGradient, micro}), stage < stages - 1);
          EXPECT_EQ(seen.contains({PipelineOp::kSendOutput, micro}), stage < stages - 1);
        }
        if (op == PipelineOp::kSendGradient) {
          EXPECT_TRUE(seen.contains({PipelineOp::kBackward, micro}));
          EXPECT_GT(stage, 0);
        }
        EXPECT_LE(forward - backward, std::min<std::int64_t>(stages - stage, micros));
      }
      EXPECT_EQ(forward, micros);
      EXPECT_EQ(backward, micros);
      const std::int64_t sends = (stage > 0 ? 2 : 0) + (stage < stages - 1 ? 2 : 0);
      EXPECT_EQ(seen.size(), static_cast<std::size_t>((2 + sends) * micros));
    }
  });
}

// Stages that take steps while their channels let them. A blocked stage stays blocked until its neighbour
// moves, and moving never blocks another, so whether all of them end does not depend on the order taken.
class Channels {
 public:
  Channels(int stages, std::int64_t capacity)
      : capacity_(capacity), down_(static_cast<std::size_t>(stages), 0), up_(down_) {}

  bool take(std::size_t stage, PipelineOp op) {
    switch (op) {
      case PipelineOp::kReceiveInput:
        return receive(down_[stage - 1]);
      case PipelineOp::kSendOutput:
        return send(down_[stage]);
      case PipelineOp::kReceiveGradient:
        return receive(up_[stage]);
      case PipelineOp::kSendGradient:
        return send(up_[stage - 1]);
      default:
        return true;
    }
  }
  bool empty() const {
    const auto none = [](std::int64_t messages) { return messages == 0; };
    return std::all_of(down_.begin(), down_.end(), none) && std::all_of(up_.begin(), up_.end(), none);
  }

 private:
  static bool receive(std::int64_t& messages) {
    if (messages == 0) return false;
    --messages;
    return true;
  }
  bool send(std::int64_t& messages) const {
    if (messages == capacity_) return false;
    ++messages;
    return true;
  }

  const std::int64_t capacity_;
  std::vector<std::int64_t> down_, up_;  // messages between stage i and the next
};

TEST(PipelineSchedule, SomeStageCanAlwaysGoOn) {
  for_every_pipeline([](int stages, std::int64_t micros) {
    for (const std::int64_t capacity : {1, 2, 3}) {
      Channels channels(stages, capacity);
      std::vector<std::vector<PipelineStep>> steps;
      for (int stage = 0; stage < stages; ++stage) steps.push_back(pipeline_steps(stage, stages, micros));
      std::vector<std::size_t> done(steps.size(), 0);
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t s = 0; s < steps.size(); ++s) {
          while (done[s] < steps[s].size() && channels.take(s, steps[s][done[s]].op)) {
            ++done[s];
            moved = true;
          }
        }
      }
      for (std::size_t s = 0; s < steps.size(); ++s) EXPECT_EQ(done[s], steps[s].size()) << "stage " << s;
      EXPECT_TRUE(channels.empty());
    }
  });
}

}  // namespace
}  // namespace paceline::collective

#include "paceline/collective/pipeline_schedule.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::collective {

namespace {

class Steps {
 public:
  Steps(int stage, int stages) : first_(stage == 0), last_(stage == stages - 1) {}

  void forward(std::int64_t micro) {
    if (!first_) add(PipelineOp::kReceiveInput, micro);
    add(PipelineOp::kForward, micro);
    if (!last_) add(PipelineOp::kSendOutput, micro);
  }
  void backward(std::int64_t micro) {
    if (!last_) add(PipelineOp::kReceiveGradient, micro);
    add(PipelineOp::kBackward, micro);
    if (!first_) add(PipelineOp::kSendGradient, micro);
  }
  std::vector<PipelineStep> take() { return std::move(steps_); }

 private:
  void add(PipelineOp op, std::int64_t micro) { steps_.push_back({op, micro}); }

  const bool first_;
  const bool last_;
  std::vector<PipelineStep> steps_;
};

// A model of the batch: how far each stage is, and when.
class Timeline {
 public:
  explicit Timeline(std::span<const std::vector<StageTime>> times) : times_(times), stages_(times.size()) {
    for (std::size_t s = 0; s < times.size(); ++s) {
      stages_[s].steps = pipeline_steps(static_cast<int>(s), static_cast<int>(times.size()),
                                        static_cast<std::int64_t>(times[s].size()));
    }
  }

  // False when the stage is done, or needs what a neighbour has not done so far.
  bool advance(std::size_t stage) {
    Stage& own = stages_[stage];
    if (own.next == own.steps.size()) return false;
    const auto [op, micro] = own.steps[own.next];
    const auto m = static_cast<std::size_t>(micro);
    if (op == PipelineOp::kReceiveInput) {
      if (!wait(own, stages_[stage - 1].forward_ends, m)) return false;
    } else if (op == PipelineOp::kReceiveGradient) {
      if (!wait(own, stages_[stage + 1].backward_ends, m)) return false;
    } else if (op == PipelineOp::kForward) {
      own.forward_ends.push_back(own.free += times_[stage][m].forward);
    } else if (op == PipelineOp::kBackward) {
      own.backward_ends.push_back(own.free += times_[stage][m].backward);
    }
    ++own.next;
    return true;
  }

  Duration end() const {
    Duration last{0};
    for (const Stage& stage : stages_) last = std::max(last, stage.free);
    return last;
  }

 private:
  struct Stage {
    std::vector<PipelineStep> steps;
    std::size_t next = 0;
    Duration free{0};
    std::vector<Duration> forward_ends;
    std::vector<Duration> backward_ends;
  };

  static bool wait(Stage& own, const std::vector<Duration>& ends, std::size_t micro) {
    if (ends.size() <= micro) return false;
    own.free = std::max(own.free, ends[micro]);
    return true;
  }

  const std::span<const std::vector<StageTime>> times_;
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<PipelineStep> pipeline_steps(int stage, int stages, std::int64_t micros) {
  PACELINE_CHECK(0 <= stage && stage < stages && micros >= 0, "stage {} of {}, {} micro-batches", stage,
                 stages, micros);
  const std::int64_t ahead = std::min<std::int64_t>(stages - stage - 1, micros);
  Steps steps(stage, stages);
  for (std::int64_t m = 0; m < ahead; ++m) steps.forward(m);
  for (std::int64_t m = ahead; m < micros; ++m) {
    steps.forward(m);
    steps.backward(m - ahead);
  }
  for (std::int64_t m = micros - ahead; m < micros; ++m) steps.backward(m);
  return steps.take();
}

Duration pipeline_time(std::span<const std::vector<StageTime>> times) {
  Timeline timeline(times);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
      while (timeline.advance(stage)) moved = true;
    }
  }
  return timeline.end();
}

}  // namespace paceline::collective

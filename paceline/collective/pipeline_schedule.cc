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

}  // namespace paceline::collective

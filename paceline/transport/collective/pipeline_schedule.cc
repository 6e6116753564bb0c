#include "paceline/transport/collective/pipeline_schedule.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/stage_turns.h"

namespace paceline::collective {

namespace {

class Steps {
 public:
  explicit Steps(const PipelinePlace& place)
      : first_(place.stage == 0),
        last_(place.stage + 1 == place.widths.size()),
        turn_(static_cast<std::int64_t>(place.turn)),
        width_(static_cast<std::int64_t>(place.widths[place.stage])) {}

  // The n-th of its own. The last stage keeps one micro-batch, so its backward pass comes next.
  void forward(std::int64_t n) {
    const std::int64_t micro = turn_ + n * width_;
    if (!first_) add(PipelineOp::kReceiveInput, micro);
    add(last_ ? PipelineOp::kForwardBackward : PipelineOp::kForward, micro);
    if (!last_) add(PipelineOp::kSendOutput, micro);
  }
  void backward(std::int64_t n) {
    const std::int64_t micro = turn_ + n * width_;
    if (!last_) add(PipelineOp::kReceiveGradient, micro);
    if (!last_) add(PipelineOp::kBackward, micro);
    if (!first_) add(PipelineOp::kSendGradient, micro);
  }
  std::vector<PipelineStep> take() { return std::move(steps_); }

 private:
  void add(PipelineOp op, std::int64_t micro) { steps_.push_back({op, micro}); }

  const bool first_;
  const bool last_;
  const std::int64_t turn_, width_;
  std::vector<PipelineStep> steps_;
};

}  // namespace

std::vector<PipelineStep> pipeline_steps(const PipelinePlace& place, std::int64_t micros) {
  PACELINE_CHECK(place.stage < place.widths.size() && place.turn < place.widths[place.stage] && micros >= 0,
                 "stage {} of {}, turn {}, {} micro-batches", place.stage, place.widths.size(), place.turn,
                 micros);
  const std::int64_t own = in_turn(micros, place.turn, place.widths[place.stage]);
  const std::int64_t ahead = std::min(kept_at_once(place.widths)[place.stage] - 1, own);
  Steps steps(place);
  for (std::int64_t n = 0; n < ahead; ++n) steps.forward(n);
  for (std::int64_t n = ahead; n < own; ++n) {
    steps.forward(n);
    steps.backward(n - ahead);
  }
  for (std::int64_t n = own - ahead; n < own; ++n) steps.backward(n);
  return steps.take();
}

}  // namespace paceline::collective

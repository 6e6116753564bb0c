// The work of each device of a pipeline on the micro-batches of one batch, as data. Pure.
//
// One forward, one backward (1F1B), with a flush (PipeDream-Flush: Narayanan and others 2021); devices that
// share a stage take micro-batches in turn (base/stage_turns.h). A device first runs as many micro-batches
// forward as it keeps at once, less one, then one forward and one backward in turn, then the backward passes
// that are left. So where no stage is shared, stage s of S keeps at most S − s micro-batches between their
// two passes, however many there are, and the weights stay as they are for the whole batch.
//
// Invariant: every micro-batch goes forward once and then backward once, each pass in ascending order, and in
// the last stage both passes are one step; with channels between devices that hold a message each way, some
// device can always go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::collective {

enum class PipelineOp {
  kReceiveInput,  // from the stage before; the first stage has its data
  kForward,
  kSendOutput,       // to the stage behind; the last stage has the loss
  kReceiveGradient,  // the gradient of the output, from the stage behind
  kBackward,
  kForwardBackward,  // both passes of the last stage, which has nothing to wait for between them
  kSendGradient,     // the gradient of the input, to the stage before
};

struct PipelineStep {
  PipelineOp op;
  std::int64_t micro;
  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};

// A device's place in a pipeline. `widths`: the number of devices of each stage.
struct PipelinePlace {
  std::size_t stage = 0;
  std::size_t turn = 0;
  std::vector<std::size_t> widths{1};
};

// The steps of the device on its own micro-batches, out of `micros`. Requires: the place exists, micros ≥ 0.
std::vector<PipelineStep> pipeline_steps(const PipelinePlace& place, std::int64_t micros);

}  // namespace paceline::collective

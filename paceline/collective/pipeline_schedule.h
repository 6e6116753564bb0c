// What each stage of a pipeline does with the micro-batches of one batch, as data. Pure.
//
// One forward, one backward (1F1B), with a flush (PipeDream-Flush: Narayanan and others 2021): a stage runs
// as many micro-batches forward as there are stages behind it, then one forward and one backward in turn,
// then the backward passes that are left. So stage s of S keeps at most S − s micro-batches between their two
// passes, however many there are, and the weights stay as they are for the whole batch.
//
// What always holds: every micro-batch goes forward once and then backward once, each pass in ascending
// order; with channels between neighbours that hold a message each way, some stage can always go on.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::collective {

enum class PipelineOp {
  kReceiveInput,  // from the stage before; the first stage has its data
  kForward,
  kSendOutput,       // to the stage behind; the last stage has the loss
  kReceiveGradient,  // of the output, from the stage behind
  kBackward,
  kSendGradient,  // of the input, to the stage before
};

struct PipelineStep {
  PipelineOp op;
  std::int64_t micro;
  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};

// Requires: 0 ≤ stage < stages, micros ≥ 0.
std::vector<PipelineStep> pipeline_steps(int stage, int stages, std::int64_t micros);

}  // namespace paceline::collective

// Micro-batches as tensors: views of a batch.
#pragma once

#include <cstdint>

#include "paceline/computing/engine/micro_batches.h"
#include "paceline/computing/train/dataset.h"

namespace paceline::train {

using engine::kWholeBatch;
using engine::MicroBatches;

inline torch::Tensor micro_batch(const MicroBatches& micros, const torch::Tensor& whole, std::int64_t micro) {
  return whole.slice(0, micros.begin(micro), micros.end(micro));
}
inline Batch micro_batch(const MicroBatches& micros, const Batch& batch, std::int64_t micro) {
  return {micro_batch(micros, batch.inputs, micro), micro_batch(micros, batch.targets, micro)};
}

}  // namespace paceline::train

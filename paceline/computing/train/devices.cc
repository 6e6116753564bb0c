#include "paceline/computing/train/devices.h"

#include <torch/cuda.h>
#include <torch/version.h>

namespace paceline::train {

Devices devices() { return {TORCH_VERSION, static_cast<std::int64_t>(torch::cuda::device_count())}; }

}  // namespace paceline::train

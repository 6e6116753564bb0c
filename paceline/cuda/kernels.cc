#include "paceline/cuda/kernels.h"

#include "paceline/base/check.h"

namespace paceline::cuda {

KernelNames kernels_of(ps::OptimizerKind kind) {
  switch (kind) {
    case ps::OptimizerKind::kSgd:
      return {"paceline_step_sgd", "paceline_direction_sgd"};
    case ps::OptimizerKind::kNesterov:
      return {"paceline_step_nesterov", "paceline_direction_nesterov"};
    case ps::OptimizerKind::kRmsprop:
      return {"paceline_step_rmsprop", "paceline_direction_rmsprop"};
    case ps::OptimizerKind::kLion:
      return {"paceline_step_lion", "paceline_direction_lion"};
    case ps::OptimizerKind::kAdam:
    case ps::OptimizerKind::kAdamW:
      return {"paceline_step_adam", "paceline_direction_adam"};
    case ps::OptimizerKind::kLars:
    case ps::OptimizerKind::kLamb:
    case ps::OptimizerKind::kAdafactor:
      break;
  }
  PACELINE_CHECK(false, "an optimizer that steps whole tensors has no kernel");
  return {};
}

}  // namespace paceline::cuda

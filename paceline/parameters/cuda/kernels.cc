#include "paceline/parameters/cuda/kernels.h"

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
    case ps::OptimizerKind::kAdamax:
      return {"paceline_step_adamax", "paceline_direction_adamax"};
    case ps::OptimizerKind::kLars:
    case ps::OptimizerKind::kLamb:
    case ps::OptimizerKind::kAdafactor:
      break;
  }
  PACELINE_CHECK(false, "an optimizer that steps whole tensors has no kernel");
  return {};
}

std::span<const char* const> tensor_kernels(ps::OptimizerKind kind) {
  static constexpr const char* kLars[] = {"paceline_average", kSquaresLanesKernel, "paceline_factors_lars",
                                          "paceline_step_lars"};
  static constexpr const char* kLamb[] = {"paceline_average", "paceline_moments_lamb", kSquaresLanesKernel,
                                          "paceline_factors_lamb", "paceline_step_lamb"};
  static constexpr const char* kAdafactor[] = {
      "paceline_average",           "paceline_rows_adafactor",        "paceline_sums_adafactor",
      "paceline_columns_adafactor", "paceline_row_factors_adafactor", "paceline_divide_adafactor",
      kSquaresLanesKernel,          "paceline_factors_adafactor",     "paceline_step_adafactor"};
  if (kind == ps::OptimizerKind::kLars) return kLars;
  if (kind == ps::OptimizerKind::kLamb) return kLamb;
  PACELINE_CHECK(kind == ps::OptimizerKind::kAdafactor, "an optimizer that does not step whole tensors");
  return kAdafactor;
}

}  // namespace paceline::cuda

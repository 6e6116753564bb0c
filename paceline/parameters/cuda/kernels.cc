#include "paceline/parameters/cuda/kernels.h"

#include "paceline/base/check.h"
#include "paceline/parameters/ps/look_ahead.h"

namespace paceline::cuda {

KernelNames kernels_of(ps::OptimizerKind kind) {
#define PACELINE_NAMES(Name, name) \
  case ps::OptimizerKind::k##Name: \
    return {"paceline_step_" #name, ps::has_direction(kind) ? "paceline_direction_" #name : nullptr};
#define PACELINE_BREAK(Name, name) \
  case ps::OptimizerKind::k##Name: \
    break;
  switch (kind) { PACELINE_EACH_OPTIMIZER(PACELINE_NAMES, PACELINE_BREAK) }
#undef PACELINE_NAMES
#undef PACELINE_BREAK
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

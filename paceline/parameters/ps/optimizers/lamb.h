// LAMB: You and others 2020, arXiv 1904.00962, algorithm 2.
#pragma once

#include "paceline/parameters/ps/optimizers/adam.h"

namespace paceline::ps {

// LAMB steps along r + λw, with r as Adam's step, multiplied by ‖w‖/‖r + λw‖. The ratio is of the weights as they are and has
// no state. So it takes the rule of Adam, and under a steady gradient a round of lone commits moves the weights as far as
// one bulk commit, but for what the weights change within the round.
//
// LAMB's `weight` is the step along which the weight goes, and not the next weight.
class LambStep {
 public:
  PACELINE_STEP_MATH explicit LambStep(const StepNumbers& numbers)
      : decay_(numbers.coupled_decay),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        correction1_(numbers.correction1),
        root_correction_(__builtin_sqrtf(numbers.correction2)),
        epsilon_(numbers.epsilon) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float second) const {
    const float next_first = beta1_ * first + (1.0f - beta1_) * gradient;
    const float next_second = beta2_ * second + (1.0f - beta2_) * gradient * gradient;
    const float root = __builtin_sqrtf(next_second) / root_correction_ + epsilon_;
    return {next_first / correction1_ / root + decay_ * weight, next_first, next_second};
  }

 private:
  float decay_, beta1_, beta2_, correction1_, root_correction_, epsilon_;
};

PACELINE_STEP_MATH float lamb_rate(const StepNumbers& numbers, bool adapted, double weights, double step) {
  return numbers.rate * (adapted ? ratio_of(weights, step) : 1.0f);
}

struct LambSpec {
  // LAMB has no direction: how far its momentum carries a tensor depends on norms that only the next step knows.
  static constexpr OptimizerTraits kTraits{.name = "lamb",
                                           .learning_rate = 0.001,
                                           .usual = {.epsilon = 1e-6},
                                           .shown = kBetasShown,
                                           .state = {"first moment", "second moment"},
                                           .set_numbers = set_moments};
};

}  // namespace paceline::ps

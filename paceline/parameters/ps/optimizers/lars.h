// LARS: You, Gitman, Ginsburg 2017, arXiv 1708.03888, algorithm 1.
#pragma once

#include "paceline/parameters/ps/optimizers/sgd.h"

namespace paceline::ps {

// SGD whose gradient, decay included, is multiplied by a tensor's ratio t·‖w‖/(‖ḡ‖ + λ‖w‖). The ratio is of the weights as
// they are and has no state. So it takes the rule of SGD, and under a steady gradient a round of lone commits moves the
// weights as far as one bulk commit, but for what the weights change within the round.
//
// `adapted`: whether the tensor's step is multiplied by a ratio of norms.
PACELINE_STEP_MATH float lars_gain(const StepNumbers& numbers, bool adapted, double weights,
                                   double gradient) {
  if (!adapted) return numbers.gain;
  const double under = gradient + static_cast<double>(numbers.coupled_decay) * weights;
  const double over = static_cast<double>(numbers.trust) * weights;
  return numbers.gain * (gradient == 0 ? 1.0f : ratio_of(over, under));
}

struct LarsSpec {
  static void set_numbers(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
    set_momentum(config, commit, numbers);
    numbers.trust = static_cast<float>(config.trust);
  }
  static constexpr OwnSetting kSettings[] = {{"trust", &OptimizerConfig::trust, 1e-9, 1e3}};
  // The direction is that of SGD; that the ratio of the next steps is another one is left out.
  static constexpr OptimizerTraits kTraits{.name = "lars",
                                           .learning_rate = 1,
                                           .settings = kSettings,
                                           .shown = kMomentumShown,
                                           .state = {"velocity of adapted steps"},
                                           .set_numbers = set_numbers,
                                           .direction_kept = kept_velocity};
  using Step = SgdStep;
};

}  // namespace paceline::ps

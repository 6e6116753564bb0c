// Lion: Chen and others 2023, arXiv 2302.06675, algorithm 2.
#pragma once

#include "paceline/parameters/ps/optimizers/adam.h"

namespace paceline::ps {

// c = β1·m + (1 − β1)·g, w ← w − η·f·sign(c) − η·f·λ·w, m ← β2^f·m + (1 − β2^f)·g. Here β1 is not raised: c is no state,
// but the question in which direction momentum and this gradient point together, and how far that counts is in the rate
// alone. So under a steady gradient lone commits turn round when the bulk does, and a round moves the weights exactly as
// far. (With β1^f the momentum would outvote a gradient that turned for 16 % longer, at f = 1/8.) A lone gradient's noise
// is larger than the bulk's, so where noise decides the sign lone commits move less far.
class LionStep {
 public:
  static constexpr int kStates = 1;
  PACELINE_STEP_MATH explicit LionStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        shrink_(numbers.shrink),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float momentum, float) const {
    const float both = beta1_ * momentum + (1.0f - beta1_) * gradient;
    const float shrunk = weight - shrink_ * weight;
    return {shrunk - rate_ * sign_of(both), beta2_ * momentum + (1.0f - beta2_) * gradient, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state1);
  }
  PACELINE_STEP_MATH float direction(float momentum, float) const { return direction_ * sign_of(momentum); }

 private:
  float rate_, shrink_, beta1_, beta2_, direction_;
};

struct LionSpec {
  static void set_numbers(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
    numbers.beta1 = static_cast<float>(config.beta1);
    numbers.beta2 = kept_part(config.beta2, commit.fraction);
  }
  // A sign does not fade.
  static double direction_kept(const OptimizerConfig&) { return 1; }
  static constexpr OptimizerTraits kTraits{.name = "lion",
                                           .learning_rate = 0.0001,
                                           .usual = {.beta2 = 0.99},
                                           .shown = kBetasShown,
                                           .state = {"mean of gradients"},
                                           .decoupled = true,
                                           .set_numbers = set_numbers,
                                           .direction_kept = direction_kept};
  using Step = LionStep;
};

}  // namespace paceline::ps

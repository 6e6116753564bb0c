// RMSprop: Tieleman and Hinton 2012, not centered, with momentum.
#pragma once

#include "paceline/parameters/ps/optimizers/sgd.h"

namespace paceline::ps {

// s ← α^f·s + (1 − α^f)·g², b ← μ^f·b + G·g/(√s + ε), w ← w − η·f·b, with G the gain of SGD. Under a steady gradient s is
// g² and b is that of SGD for a gradient of 1: exact, too. While s is still filling it is not: it has no bias correction,
// and within the first round lone commits divide by a smaller √s. At worst, in the very first round, they move the weights
// twice as far as the bulk commit.
class RmspropStep : public VelocityStep {
 public:
  static constexpr int kStates = 2;
  PACELINE_STEP_MATH explicit RmspropStep(const StepNumbers& numbers)
      : VelocityStep(numbers), beta2_(numbers.beta2), epsilon_(numbers.epsilon) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float moving, float squares) const {
    const float g = gradient + decay_ * weight;
    const float next_squares = beta2_ * squares + (1.0f - beta2_) * g * g;
    const float next_moving = momentum_ * moving + gain_ * (g / (__builtin_sqrtf(next_squares) + epsilon_));
    return {weight - rate_ * next_moving, next_moving, next_squares};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state2);
  }

 private:
  float beta2_, epsilon_;
};

struct RmspropSpec {
  static void set_numbers(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
    set_momentum(config, commit, numbers);
    numbers.beta2 = kept_part(config.beta2, commit.fraction);
  }
  static constexpr OptimizerTraits kTraits{.name = "rmsprop",
                                           .learning_rate = 0.01,
                                           .usual = {.momentum = 0, .beta2 = 0.99},
                                           .beta2 = "alpha",
                                           .shown = kMomentumShown,
                                           .state = {"moving sum of the steps", "mean of squares"},
                                           .set_numbers = set_numbers,
                                           .direction_kept = kept_velocity};
  using Step = RmspropStep;
};

}  // namespace paceline::ps

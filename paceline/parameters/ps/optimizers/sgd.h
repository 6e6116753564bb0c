// SGD with momentum.
#pragma once

#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

// v ← μ^f·v + (1 − μ^f)/(1 − μ)·g and w ← w − η·f·v, with f the fraction of the bulk: one round of lone commits moves the
// weights exactly as far as one bulk commit under a steady gradient. The gain stands before the gradient and not in the
// rate, because it belongs to the gradient's own commit: in the rate it would be that of each later commit, and a lone
// gradient would in the end move the weights as far as the mean of four.
inline void set_momentum(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
  numbers.momentum = kept_part(config.momentum, commit.fraction);
  // From the momenta as rounded: 1 − μ^f is small, and a rounding of μ^f alone would show in it. At f = 1
  // the gain is exactly 1, so a bulk commit is plain SGD to the last bit.
  numbers.gain = static_cast<float>((1.0 - double{numbers.momentum}) /
                                    (1.0 - double{static_cast<float>(config.momentum)}));
}
inline double kept_velocity(const OptimizerConfig& config) { return config.momentum; }
inline constexpr ShownSetting kMomentumShown[] = {{"momentum", &OptimizerConfig::momentum}};

// The numbers that steps with a velocity have in common; the direction is the velocity.
class VelocityStep {
 public:
  PACELINE_STEP_MATH explicit VelocityStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        momentum_(numbers.momentum),
        gain_(numbers.gain),
        decay_(numbers.coupled_decay),
        direction_(numbers.direction) {}
  PACELINE_STEP_MATH float direction(float velocity, float) const { return direction_ * velocity; }

 protected:
  float rate_, momentum_, gain_, decay_, direction_;
};

class SgdStep : public VelocityStep {
 public:
  static constexpr int kStates = 1;
  using VelocityStep::VelocityStep;
  // LARS: SGD with a gain for each tensor.
  PACELINE_STEP_MATH SgdStep(const StepNumbers& numbers, float gain) : VelocityStep(numbers) { gain_ = gain; }

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float velocity, float) const {
    const float next = momentum_ * velocity + gain_ * (gradient + decay_ * weight);
    return {weight - rate_ * next, next, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const { return mark_of(to.weight); }
};

struct SgdSpec {
  static constexpr OptimizerTraits kTraits{.name = "sgd",
                                           .learning_rate = 0.05,
                                           .shown = kMomentumShown,
                                           .state = {"velocity"},
                                           .set_numbers = set_momentum,
                                           .direction_kept = kept_velocity};
  using Step = SgdStep;
};

}  // namespace paceline::ps

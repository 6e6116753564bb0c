// Adam: Kingma and Ba 2014, arXiv 1412.6980, algorithm 1. Its decay is a part of the gradient.
#pragma once

#include <cmath>

#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

// β1 and β2 are raised to f, the fraction of the bulk, with the rate η·f: (1 − β^f) is a gain as SGD's already. The bias
// correction counts bulks, and not commits.
inline void set_moments(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers) {
  numbers.beta1 = kept_part(config.beta1, commit.fraction);
  numbers.beta2 = kept_part(config.beta2, commit.fraction);
  numbers.correction1 = static_cast<float>(1.0 - std::pow(config.beta1, commit.fractions));
  numbers.correction2 = static_cast<float>(1.0 - std::pow(config.beta2, commit.fractions));
}
// The direction fades like the first moment; that the second one fades too is left out.
inline double kept_moment(const OptimizerConfig& config) { return config.beta1; }
inline constexpr ShownSetting kBetasShown[] = {{"beta1", &OptimizerConfig::beta1},
                                               {"beta2", &OptimizerConfig::beta2}};

// The numbers that steps with moments have in common.
class MomentStep {
 public:
  static constexpr int kStates = 2;
  PACELINE_STEP_MATH explicit MomentStep(const StepNumbers& numbers)
      : rate_(numbers.rate / numbers.correction1),
        decay_(numbers.coupled_decay),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        correction1_(numbers.correction1),
        epsilon_(numbers.epsilon),
        direction_(numbers.direction) {}

 protected:
  float rate_, decay_, beta1_, beta2_, correction1_, epsilon_, direction_;
};

// Adam, and AdamW: their numbers alone differ.
class AdamStep : public MomentStep {
 public:
  PACELINE_STEP_MATH explicit AdamStep(const StepNumbers& numbers)
      : MomentStep(numbers),
        shrink_(numbers.shrink),
        root_correction_(__builtin_sqrtf(numbers.correction2)) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float second) const {
    const float g = gradient + decay_ * weight;
    const float next_first = beta1_ * first + (1.0f - beta1_) * g;
    const float next_second = beta2_ * second + (1.0f - beta2_) * g * g;
    const float shrunk = weight - shrink_ * weight;
    const float root = __builtin_sqrtf(next_second) / root_correction_ + epsilon_;
    return {shrunk - rate_ * next_first / root, next_first, next_second};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state2);
  }
  PACELINE_STEP_MATH float direction(float first, float second) const {
    const float root = __builtin_sqrtf(second) / root_correction_ + epsilon_;
    return direction_ * (first / correction1_ / root);
  }

 private:
  float shrink_, root_correction_;
};

struct AdamSpec {
  static constexpr OptimizerTraits kTraits{.name = "adam",
                                           .learning_rate = 0.001,
                                           .shown = kBetasShown,
                                           .state = {"first moment", "second moment"},
                                           .set_numbers = set_moments,
                                           .direction_kept = kept_moment};
  using Step = AdamStep;
};

}  // namespace paceline::ps

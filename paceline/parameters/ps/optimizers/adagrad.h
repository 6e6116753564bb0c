// Adagrad: Duchi, Hazan, Singer 2011, with a diagonal matrix, as torch.optim has it without decay of the rate.
#pragma once

#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

// s ← s + f·g², w ← w − η·f·g/(√(s₀ + s) + ε), with s₀ the initial sum, which the state does not have. Under a steady
// gradient s is that of the bulks after each round. Within a round lone commits divide by a smaller √s: in the very first
// one, at worst, they move the weights twice as far as the bulk commit, and in round t by about a part of 1/(4t) more.
class AdagradStep {
 public:
  static constexpr int kStates = 1;
  PACELINE_STEP_MATH explicit AdagradStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        decay_(numbers.coupled_decay),
        gain_(numbers.gain),
        initial_(numbers.own),
        epsilon_(numbers.epsilon) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float sum, float) const {
    const float g = gradient + decay_ * weight;
    const float next = sum + gain_ * g * g;
    return {weight - rate_ * (g / (__builtin_sqrtf(initial_ + next) + epsilon_)), next, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state1);
  }

 private:
  float rate_, decay_, gain_, initial_, epsilon_;
};

struct AdagradSpec {
  static void set_numbers(const OptimizerConfig&, const CommitShare& commit, StepNumbers& numbers) {
    numbers.gain = static_cast<float>(commit.fraction);
  }
  static constexpr OwnSetting kSettings[] = {{"initial_sum", &OptimizerConfig::own, 0, 1e9}};
  static constexpr OptimizerTraits kTraits{.name = "adagrad",
                                           .learning_rate = 0.01,
                                           .usual = {.epsilon = 1e-10},
                                           .settings = kSettings,
                                           .state = {"sum of squares"},
                                           .set_numbers = set_numbers};
  using Step = AdagradStep;
};

}  // namespace paceline::ps

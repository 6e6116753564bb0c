// Signum, SGD along the sign of its momentum: Bernstein and others 2018, arXiv 1802.04434, algorithm 2. This is an
// example of an optimizer: docs/extending.md.
#pragma once

#include <cmath>

#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/step_math.h"

namespace example {

namespace ps = paceline::ps;

// m ← β^f·m + (1 − β^f)·g, w ← w − η·f·sign(m) − η·f·λ·w. Under a steady gradient the sign is that of g from the first
// commit on, so a round of lone commits moves the weights exactly as far as one bulk commit.
class SignumStep {
 public:
  static constexpr int kStates = 1;
  PACELINE_STEP_MATH explicit SignumStep(const ps::StepNumbers& numbers)
      : rate_(numbers.rate), shrink_(numbers.shrink), beta_(numbers.beta1), direction_(numbers.direction) {}

  PACELINE_STEP_MATH ps::Stepped operator()(float gradient, float weight, float mean, float) const {
    const float next = beta_ * mean + (1.0f - beta_) * gradient;
    const float shrunk = weight - shrink_ * weight;
    return {shrunk - rate_ * ps::sign_of(next), next, 0};
  }
  // The sign of a mean that is no number is 0, which the weight does not show.
  PACELINE_STEP_MATH ps::Marks marks_of(const ps::Stepped& to) const {
    return ps::mark_of(to.weight) | ps::mark_of(to.state1);
  }
  PACELINE_STEP_MATH float direction(float mean, float) const { return direction_ * ps::sign_of(mean); }

 private:
  float rate_, shrink_, beta_, direction_;
};

struct SignumSpec {
  static void set_numbers(const ps::OptimizerConfig& config, const ps::CommitShare& commit,
                          ps::StepNumbers& numbers) {
    numbers.beta1 = static_cast<float>(std::pow(config.beta1, commit.fraction));
  }
  // A sign does not fade.
  static double direction_kept(const ps::OptimizerConfig&) { return 1; }
  static constexpr ps::ShownSetting kShown[] = {{"beta1", &ps::OptimizerConfig::beta1}};
  static constexpr ps::OptimizerTraits kTraits{.name = "signum",
                                               .learning_rate = 0.0001,
                                               .shown = kShown,
                                               .state = {"mean of gradients"},
                                               .decoupled = true,
                                               .set_numbers = set_numbers,
                                               .direction_kept = direction_kept};
  using Step = SignumStep;
};

}  // namespace example

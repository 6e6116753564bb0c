// SGD with Nesterov's momentum.
#pragma once

#include "paceline/parameters/ps/optimizers/sgd.h"

namespace paceline::ps {

// The step is along the velocity that there would be if the same gradient came once more: with G = (1 − μ^f)/(1 − μ),
// v ← μ^f·v + G·g and w ← w − η·f·(G·g + μ^f·v). At f = 1 that is g + μv, as published. Under a steady gradient v is
// g/(1 − μ), and G + μ^f/(1 − μ) = 1/(1 − μ): each commit moves the weights by η·f·g/(1 − μ), so a round of lone ones moves
// them exactly as far as one bulk commit.
class NesterovStep : public VelocityStep {
 public:
  static constexpr int kStates = 1;
  using VelocityStep::VelocityStep;

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float velocity, float) const {
    const float g = gain_ * (gradient + decay_ * weight);
    const float next = momentum_ * velocity + g;
    return {weight - rate_ * (g + momentum_ * next), next, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const { return mark_of(to.weight); }
};

struct NesterovSpec {
  static constexpr OptimizerTraits kTraits{.name = "nesterov",
                                           .variant = "sgd with Nesterov's momentum",
                                           .learning_rate = 0.05,
                                           .shown = kMomentumShown,
                                           .state = {"velocity"},
                                           .set_numbers = set_momentum,
                                           .direction_kept = kept_velocity,
                                           .direction_late = true};
  using Step = NesterovStep;
};

}  // namespace paceline::ps

// AdaMax: Kingma and Ba 2014, arXiv 1412.6980, algorithm 2.
#pragma once

#include "paceline/parameters/ps/optimizers/adam.h"

namespace paceline::ps {

// m as Adam's, u ← max(β2^f·u, |g| + ε), w ← w − η·f/(1 − β1^Σf)·m/u. Under a steady gradient u is |g| + ε and
// m/(1 − β1^Σf) is g from the first commit on: exact. A lone gradient's noise is larger than the bulk's, and u keeps the
// largest, so under noise lone commits move less far.
class AdamaxStep : public MomentStep {
 public:
  using MomentStep::MomentStep;

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float largest) const {
    const float g = gradient + decay_ * weight;
    const float next_first = beta1_ * first + (1.0f - beta1_) * g;
    const float now = __builtin_fabsf(g) + epsilon_;
    const float kept = beta2_ * largest;
    const float next_largest = kept > now ? kept : now;  // a gradient that is NaN stays
    return {weight - rate_ * next_first / next_largest, next_first, next_largest};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const { return mark_of(to.weight); }
  // The direction fades like the first moment; that the largest gradient fades too is left out.
  PACELINE_STEP_MATH float direction(float first, float largest) const {
    return largest > 0.0f ? direction_ * (first / correction1_ / largest) : 0.0f;  // 0: no step yet
  }
};

struct AdamaxSpec {
  static constexpr OptimizerTraits kTraits{.name = "adamax",
                                           .learning_rate = 0.002,
                                           .shown = kBetasShown,
                                           .state = {"first moment", "largest gradient"},
                                           .set_numbers = set_moments,
                                           .direction_kept = kept_moment};
  using Step = AdamaxStep;
};

}  // namespace paceline::ps

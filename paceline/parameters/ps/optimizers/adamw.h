// AdamW: Adam whose decay is apart from the gradient. Loshchilov and Hutter 2017, arXiv 1711.05101, algorithm 2.
#pragma once

#include "paceline/parameters/ps/optimizers/adam.h"

namespace paceline::ps {

struct AdamWSpec {
  static constexpr OptimizerTraits kTraits{.name = "adamw",
                                           .learning_rate = 0.001,
                                           .shown = kBetasShown,
                                           .state = {"first moment", "second moment"},
                                           .decoupled = true,
                                           .set_numbers = set_moments,
                                           .direction_kept = kept_moment};
  using Step = AdamStep;
};

}  // namespace paceline::ps

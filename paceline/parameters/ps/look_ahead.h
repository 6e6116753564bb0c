// Weights predicted for the moment when a gradient will be committed: the current velocity moves them until
// then, so the gradient is computed near the weights that it will be applied to. [ours, after DANA: Hakimi,
// Barkai, Gabel, Schuster 2019, arXiv 1907.11612] Pure; any thread.
#pragma once

#include <span>

#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

// Whether replicas can look ahead under this optimizer. Under LAMB they cannot: how far its momentum carries
// a tensor depends on norms that only the next step knows. Adafactor has no momentum.
bool has_direction(OptimizerKind kind);

// How far along −direction the next `staleness` commits of a fraction f each carry the weights when they
// bring nothing new: η·f·Σ_{i=1..τ} μ^(i·f), for a real τ ≥ 0; 0 when τ or μ is 0. What decoupled decay takes
// meanwhile is left out.
//   SGD, RMSprop  so, exactly
//   Nesterov      each step is along the velocity of the one after it: times μ^f, exactly
//   Adam, AdamW   the direction fades like the first moment, so β1 is in place of μ; that the second one
//                 fades too is left out
//   AdaMax        as Adam; that the largest gradient fades too is left out
//   Lion          the sign of its momentum does not fade: 1 is in place of μ, exactly
//   LARS          as SGD; that the ratio of the next steps is another one is left out
// Requires: no number below 0; has_direction().
double look_ahead_reach(const OptimizerConfig& config, double learning_rate, double staleness,
                        double fraction);

// A replica goes as far as the optimizer's reach along the whole direction. So the direction of a group of
// tensors, for which the optimizer is `own`, is multiplied by this: the reach of `own` in that of `optimizer`
// for one commit of the bulk. That is exact where they differ in their rates. Where their momentum differs it
// is exact for τ = f = 1, and else counts later commits as if it faded like the optimizer's.
double direction_scale(const OptimizerConfig& optimizer, const OptimizerConfig& own);

// out = weights − reach · direction, the same bytes on every processor. Sizes are equal; `out` overlaps
// neither.
void look_ahead(std::span<const float> weights, std::span<const float> direction, float reach,
                std::span<float> out);
// The same for narrow tensors, rounded.
void look_ahead(std::span<const float> weights, std::span<const float> direction, float reach,
                std::span<Bfloat16> out);
// The same over these ranges alone (Layout::moving()): constants of `out` stay as they are.
void look_ahead(std::span<const Layout::Range> ranges, std::span<const float> weights,
                std::span<const float> direction, float reach, std::span<float> out);

}  // namespace paceline::ps

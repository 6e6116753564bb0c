// Weights predicted for the moment when a gradient will be committed: the current velocity moves them until
// then, so the gradient is computed near the weights that it will be applied to. [ours, after DANA: Hakimi,
// Barkai, Gabel, Schuster 2019, arXiv 1907.11612] Pure; any thread.
#pragma once

#include <span>

#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

// Whether replicas can look ahead under this optimizer.
bool has_direction(OptimizerKind kind);

// How far along −direction the next `staleness` commits of a fraction f each carry the weights when they
// bring nothing new: η·f·Σ_{i=1..τ} μ^(i·f), for a real τ ≥ 0; 0 when τ or μ is 0. What decoupled decay takes
// meanwhile is left out.
// μ is the share of the direction that is left after a commit of the bulk, which the optimizer's Spec says: with SGD,
// Nesterov's momentum, RMSprop and Lion exactly; Adam's direction fades like the first moment, so there it is β1, and that
// the second one fades too is left out. If a Spec says that each step is along the direction of one commit later, as
// Nesterov's is, all of that is multiplied by μ^f.
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

// The factors of one optimizer step, scaled for a commit with only a part of the bulk. Pure.
#pragma once

#include "paceline/parameters/ps/optimizers/list.h"

namespace paceline::ps {

const OptimizerTraits& traits_of(OptimizerKind kind);

// Whether a step needs norms of whole tensors (ps/tensorwise.h), which no shard may then cut.
bool is_tensorwise(OptimizerKind kind);

// The optimizer with its defaults.
OptimizerConfig usual_config(OptimizerKind kind);

// Floats of optimizer state for each weight.
int state_streams(OptimizerKind kind);

// The numbers of a step with f = `fraction` of the bulk. At f = 1 they are the published optimizer's. Each optimizer's
// header says how its β and momentum depend on f: such that a round of lone commits moves the weights as far as one bulk
// commit under a steady gradient, or how far off that is.
//
// Weight decay must come to the same per round too. Decoupled decay is scaled by f. Coupled decay is part of the gradient,
// so gain and rate have done that already: scaling λ again would leave f² of it.
//
// `fractions`: Σ f over all updates so far, this one included; for Adam's bias correction and NAdam's momentum.
// Requires: 0 < f.
StepNumbers step_numbers(const OptimizerConfig& config, double learning_rate, double fraction,
                         double fractions);

// The factor for a gradient of this norm, so that its norm is at most about `clip`: clip/(norm + 10⁻⁶), as
// PyTorch has it, or 1 if that is more. (Pascanu, Mikolov, Bengio 2013, algorithm 1.) Also 1 for a norm that
// is no finite number: scaling would hide what is wrong with the gradient, or make NaN of all of it.
// Requires: 0 < clip.
float clip_factor(double norm, double clip);

// How far batch-norm statistics go from those of version v − 1 to the average of the members' own, after a
// commit of f = `fraction` of the bulk: (1 − (1 − m)^f)/m, for a member moved its own by m = 0.1 (as libtorch
// does) towards what it saw. A round of lone commits then forgets as much as one bulk commit, and what is
// left of the noise of small batches is the same. At f = 1 exactly 1.
float statistics_pull(double fraction);

// SGD that moves the weights by the mean of what the members give, and by nothing else.
StepNumbers averaging_numbers();

}  // namespace paceline::ps

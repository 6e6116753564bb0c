// The numbers of one optimizer step, scaled for a commit that holds only a part of the bulk. Pure.
#pragma once

#include <cstdint>

namespace paceline::ps {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;  // SGD: μ
  double beta1 = 0.9;     // Adam, AdamW
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // SGD and Adam: added to the gradient as λw. AdamW: w shrinks by ηλ an update, apart from the gradient.
  double weight_decay = 0;
  double rate = 1;  // multiplies the learning rate: of a group of tensors

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// Floats of optimizer state for each weight: SGD its velocity; Adam two moments.
int state_streams(OptimizerKind kind);

// What the fused pass multiplies with.
struct StepNumbers {
  float rate = 0;           // η·f
  float momentum = 0;       // μ^f
  float gain = 1;           // of the gradient, as it enters the velocity
  float coupled_decay = 0;  // λ, added to the gradient
  float shrink = 0;         // share by which the weights shrink, apart from the gradient (AdamW)
  float beta1 = 0, beta2 = 0;
  float correction1 = 1, correction2 = 1;  // 1 − Πβ over all updates so far, this one included
  float epsilon = 0;
  float direction = 1;  // of the direction that is published (ps/look_ahead.h)
};

// With f = `fraction` of the bulk, SGD is v ← μ^f·v + (1 − μ^f)/(1 − μ)·g and w ← w − η·f·v: one round of
// lone commits moves the weights exactly as far as one bulk commit under a steady gradient. The gain stands
// before the gradient and not in the rate, because it belongs to the gradient's own commit: in the rate it
// would be that of each later commit, and a lone gradient would in the end move the weights as far as the
// mean of four. Adam's β are raised to f likewise, with the rate η·f; its (1 − β^f) is such a gain already.
//
// Weight decay must come to the same per round too. AdamW's is scaled by f. Coupled decay is part of the
// gradient, so gain and rate have done that already: scaling λ again would leave f² of it.
//
// `fractions`: Σ f over all updates so far, this one included; for Adam's bias correction. Requires: 0 < f.
StepNumbers step_numbers(const OptimizerConfig& config, double learning_rate, double fraction,
                         double fractions);

// How far batch-norm statistics go from those of version v − 1 to the average of the members' own, after a
// commit of f = `fraction` of the bulk: (1 − (1 − m)^f)/m, for a member moved its own by m = 0.1 (as libtorch
// does) towards what it saw. A round of lone commits then forgets as much as one bulk commit, and what is
// left of the noise of small batches is the same. At f = 1 exactly 1.
float statistics_pull(double fraction);

// SGD that moves the weights by the mean of what the members give, and by nothing else.
StepNumbers averaging_numbers();

}  // namespace paceline::ps

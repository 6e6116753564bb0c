// The factors of one optimizer step, scaled for a commit with only a part of the bulk. Pure.
#pragma once

#include <cstdint>

namespace paceline::ps {

// kNesterov: SGD with Nesterov's momentum. kRmsprop: Tieleman and Hinton 2012, not centered, with momentum.
// kLion: Chen and others 2023, arXiv 2302.06675, algorithm 2. kLars: You, Gitman, Ginsburg 2017, arXiv
// 1708.03888, algorithm 1. kLamb: You and others 2020, arXiv 1904.00962, algorithm 2. kAdafactor: Shazeer and
// Stern 2018, arXiv 1804.04235, algorithms 4 and 5, without momentum, as torch.optim has it. kAdamax: Kingma
// and Ba 2014, arXiv 1412.6980, algorithm 2.
enum class OptimizerKind {
  kSgd,
  kAdam,
  kAdamW,
  kNesterov,
  kRmsprop,
  kLion,
  kLars,
  kLamb,
  kAdafactor,
  kAdamax
};

// Whether a step needs norms of whole tensors (ps/tensorwise.h), which no shard may then cut.
bool is_tensorwise(OptimizerKind kind);

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;  // SGD, Nesterov, RMSprop, LARS: μ
  double beta1 = 0.9;     // Adam, AdamW, AdaMax, Lion, LAMB
  double beta2 = 0.999;   // the same; RMSprop: α
  // Adam, AdamW, AdaMax, RMSprop, LAMB; Adafactor: ε₂, the least root mean square of a tensor
  double epsilon = 1e-8;
  // Added to the gradient as λw. AdamW, Lion and Adafactor: w shrinks by ηλ an update, apart from the
  // gradient. LAMB: added to Adam's step as λw, before the ratio of norms.
  double weight_decay = 0;
  double trust = 0.001;      // LARS: its η
  double decay_power = 0.8;  // Adafactor: β2 of update t is 1 − t^−this
  double threshold = 1;      // Adafactor: d, the most that the root mean square of its step may be
  double rate = 1;           // multiplies the learning rate: of a group of tensors
  // The number of updates that a group's state lacks beside the others', if a program brings the state.
  double steps_behind = 0;
  // The largest norm of a commit's averaged gradient, over all parameters (clip_factor); 0: any.
  double clip = 0;

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// Floats of optimizer state for each weight: SGD, Nesterov, LARS their velocity; Adam, LAMB two moments;
// AdaMax the first moment and the largest gradient; RMSprop the moving sum of its steps and the mean of
// squares; Lion its momentum; Adafactor the mean of squares, of a matrix in its first few floats alone.
int state_streams(OptimizerKind kind);

// The factors of the fused pass.
struct StepNumbers {
  float rate = 0;           // η·f
  float momentum = 0;       // μ^f
  float gain = 1;           // factor of the gradient that enters the velocity
  float gradient = 1;       // factor of the members' sum, before all else: clips the norm
  float coupled_decay = 0;  // λ, added to the gradient
  float shrink = 0;         // share by which the weights shrink, apart from the gradient (AdamW, Lion)
  float beta1 = 0, beta2 = 0;
  float correction1 = 1, correction2 = 1;  // 1 − Πβ over all updates so far, this one included
  float epsilon = 0;
  float trust = 0;      // LARS
  float threshold = 1;  // Adafactor
  float direction = 1;  // factor of the direction that is published (ps/look_ahead.h)
};

// With f = `fraction` of the bulk, SGD is v ← μ^f·v + (1 − μ^f)/(1 − μ)·g and w ← w − η·f·v: one round of
// lone commits moves the weights exactly as far as one bulk commit under a steady gradient. The gain stands
// before the gradient and not in the rate, because it belongs to the gradient's own commit: in the rate it
// would be that of each later commit, and a lone gradient would in the end move the weights as far as the
// mean of four. Adam's β are raised to f, too, with the rate η·f; its (1 − β^f) is such a gain already.
//
// Nesterov steps along the velocity that it would have if the same gradient came once more: with G = (1 −
// μ^f)/(1 − μ), v ← μ^f·v + G·g and w ← w − η·f·(G·g + μ^f·v). At f = 1 that is g + μv, as published. Under a
// steady gradient v is g/(1 − μ), and G + μ^f/(1 − μ) = 1/(1 − μ): each commit moves the weights by
// η·f·g/(1 − μ), so a round of lone ones moves them exactly as far as one bulk commit.
//
// AdaMax: m as Adam's, u ← max(β2^f·u, |g| + ε), w ← w − η·f/(1 − β1^Σf)·m/u. Under a steady gradient u is
// |g| + ε and m/(1 − β1^Σf) is g from the first commit on: exact. A lone gradient's noise is larger than the
// bulk's, and u keeps the largest, so under noise lone commits move less far.
//
// RMSprop: s ← α^f·s + (1 − α^f)·g², b ← μ^f·b + G·g/(√s + ε), w ← w − η·f·b. Under a steady gradient s is
// g² and b is that of SGD for a gradient of 1: exact, too. While s is still filling it is not: it has no
// bias correction, and within the first round lone commits divide by a smaller √s. At worst, in the very
// first round, they move the weights twice as far as the bulk commit.
//
// Lion: c = β1·m + (1 − β1)·g, w ← w − η·f·sign(c) − η·f·λ·w, m ← β2^f·m + (1 − β2^f)·g. Here β1 is not
// raised: c is no state, but the question in which direction momentum and this gradient point together, and
// how far that counts is in the rate alone. So under a steady gradient lone commits turn round when the bulk
// does, and a round moves the weights exactly as far. (With β1^f the momentum would outvote a gradient that
// turned for 16 % longer, at f = 1/8.) A lone gradient's noise is larger than the bulk's, so where noise
// decides the sign lone commits move less far.
//
// LARS is SGD whose gradient, decay included, is multiplied by a tensor's ratio t·‖w‖/(‖ḡ‖ + λ‖w‖). LAMB
// steps along r + λw, with r as Adam's step, multiplied by ‖w‖/‖r + λw‖. Both ratios are of the weights as
// they are and have no state. So they take the rules of SGD and Adam, and under a steady gradient a round of
// lone commits moves the weights as far as one bulk commit, but for what the weights change within the round.
//
// Adafactor: t is the number of bulks so far, at least 1. The mean of squares keeps β2^f of itself, with β2 =
// 1 − t^−power; the rate is f·min(η, 1/√t). The ratio RMS(w) and the limit of its step have no state, as
// above.
//
// Weight decay must come to the same per round too. AdamW's, Lion's and Adafactor's is scaled by f. Coupled
// decay is part of the gradient, so gain and rate have done that already: scaling λ again would leave f² of
// it.
//
// `fractions`: Σ f over all updates so far, this one included; for Adam's bias correction. Requires: 0 < f.
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

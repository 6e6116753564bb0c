// An optimizer as one type, its Spec, in a header of its own in optimizers/:
//   static constexpr OptimizerTraits kTraits   its name, its settings' defaults, its state, the numbers of a step
//   using Step                                 the step of one number (step_math.h); optimizers that step whole
//                                              tensors have none (tensorwise.h), but LARS for its direction
// optimizers/list.h is the table of all optimizers: a new one is one more line there. The job file's parser, the loops
// of processors, the kernels of cards, reports and tests are made from that table. This file includes the standard library
// alone, because clang compiles it for cards too.
#pragma once

#include <array>
#include <cmath>
#include <span>

namespace paceline::ps {

// optimizers/list.h has the kinds. SGD is the first.
enum class OptimizerKind;

struct OptimizerConfig {
  OptimizerKind kind{};
  double momentum = 0.9;  // SGD, Nesterov, RMSprop, LARS: μ
  double beta1 = 0.9;     // Adam, AdamW, AdaMax, NAdam, Lion, LAMB
  double beta2 = 0.999;   // the same; RMSprop: α
  // Adam, AdamW, AdaMax, NAdam, RMSprop, LAMB; Adafactor: ε₂, the least root mean square of a tensor
  double epsilon = 1e-8;
  // Added to the gradient as λw. If the decay is decoupled (OptimizerTraits), w shrinks by ηλ an update, apart from the
  // gradient. LAMB: added to Adam's step as λw, before the ratio of norms.
  double weight_decay = 0;
  double trust = 0.001;      // LARS: its η
  double decay_power = 0.8;  // Adafactor: β2 of update t is 1 − t^−this
  double threshold = 1;      // Adafactor: d, the most that the root mean square of its step may be
  double own = 0;            // a setting that one optimizer alone has, and its step as StepNumbers::own
  double rate = 1;           // multiplies the learning rate: of a group of tensors
  // The number of updates that a group's state lacks beside the others', if a program brings the state.
  double steps_behind = 0;
  // The largest norm of a commit's averaged gradient, over all parameters (clip_factor); 0: any.
  double clip = 0;

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// The factors of the fused pass.
struct StepNumbers {
  float rate = 0;           // η·f
  float momentum = 0;       // μ^f; NAdam: factor of the first moment
  float gain = 1;           // factor of the gradient that enters the velocity; NAdam: of the one in the step
  float gradient = 1;       // factor of the members' sum, before all else: clips the norm
  float coupled_decay = 0;  // λ, added to the gradient
  float shrink = 0;         // share by which the weights shrink, apart from the gradient: decoupled decay
  float beta1 = 0, beta2 = 0;
  float correction1 = 1, correction2 = 1;  // 1 − Πβ over all updates so far, this one included
  float epsilon = 0;
  float trust = 0;      // LARS
  float threshold = 1;  // Adafactor
  float direction = 1;  // factor of the direction that is published (look_ahead.h)
  float own = 0;        // OptimizerConfig::own
};

// A commit, as the numbers of its step depend on it.
struct CommitShare {
  double learning_rate;  // the group's, with a full bulk
  double fraction;       // f: the part of the bulk; more than 0
  double fractions;      // Σ f over all updates of the group's state so far, this one included
};

// β^f, what a state keeps of itself. It is never 1, as it would be when rounded: 1 − β^f is what lets a gradient in, and
// without it a second moment stays 0, by which the step is divided.
inline float kept_part(double beta, double fraction) {
  constexpr float kMost = 1.0f - 0x1p-24f;
  const auto kept = static_cast<float>(std::pow(beta, fraction));
  return kept < kMost ? kept : kMost;
}

// A setting of [optimizer] in the job file that only some optimizers have.
struct OwnSetting {
  const char* key;
  double OptimizerConfig::*value;
  double least, most;
};

// A setting that reports show.
struct ShownSetting {
  const char* label;
  double OptimizerConfig::*value;
};

// Sets what step_numbers() (update_rule.h) has not set yet: there are rate, decay, epsilon and own.
using SetNumbers = void (*)(const OptimizerConfig& config, const CommitShare& commit, StepNumbers& numbers);
// The share of the direction that is left after a commit of the whole bulk that brings nothing new.
using DirectionKept = double (*)(const OptimizerConfig& config);

struct OptimizerTraits {
  const char* name;  // in job files, and in exports
  // Null: job files choose it by its name. Else its name in reports: job files choose it by a setting of another one.
  const char* variant = nullptr;
  double learning_rate;  // default
  // The other defaults. `kind` is not looked at.
  OptimizerConfig usual = {};
  const char* beta2 = "beta2";  // the name of this setting in job files
  std::span<const OwnSetting> settings = {};
  std::span<const ShownSetting> shown = {};
  std::array<const char*, 2> state;  // floats for each weight, or null; equal names mean the same numbers
  bool decoupled = false;            // weight decay is apart from the gradient
  SetNumbers set_numbers;
  // Null: replicas cannot look ahead under it, and its Step has no direction().
  DirectionKept direction_kept = nullptr;
  // Each step is along the direction as it is one commit later.
  bool direction_late = false;
};

}  // namespace paceline::ps

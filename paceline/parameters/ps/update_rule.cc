#include "paceline/parameters/ps/update_rule.h"

#include <algorithm>
#include <cmath>

#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

namespace {

bool decoupled(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW || kind == OptimizerKind::kLion || kind == OptimizerKind::kAdafactor;
}

void set_momentum(const OptimizerConfig& config, double fraction, StepNumbers& numbers) {
  numbers.momentum = static_cast<float>(std::pow(config.momentum, fraction));
  // From the momenta as rounded: 1 − μ^f is small, and a rounding of μ^f alone would show in it. At f = 1
  // the gain is exactly 1, so a bulk commit is plain SGD to the last bit.
  numbers.gain = static_cast<float>((1.0 - double{numbers.momentum}) /
                                    (1.0 - double{static_cast<float>(config.momentum)}));
}

}  // namespace

bool is_tensorwise(OptimizerKind kind) {
  return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb || kind == OptimizerKind::kAdafactor;
}

int state_streams(OptimizerKind kind) {
  const bool two = kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW ||
                   kind == OptimizerKind::kRmsprop || kind == OptimizerKind::kLamb ||
                   kind == OptimizerKind::kAdamax;
  return two ? 2 : 1;
}

StepNumbers step_numbers(const OptimizerConfig& config, double learning_rate, double fraction,
                         double fractions) {
  learning_rate *= config.rate;
  // A group without a state has made no update before this one.
  fractions = std::max(fraction, fractions - config.steps_behind);
  StepNumbers numbers;
  numbers.rate = static_cast<float>(learning_rate * fraction);
  numbers.epsilon = static_cast<float>(config.epsilon);
  (decoupled(config.kind) ? numbers.shrink : numbers.coupled_decay) = static_cast<float>(
      decoupled(config.kind) ? learning_rate * fraction * config.weight_decay : config.weight_decay);
  switch (config.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kLars:
      set_momentum(config, fraction, numbers);
      numbers.trust = static_cast<float>(config.trust);
      break;
    case OptimizerKind::kAdafactor: {
      const double updates = std::max(1.0, fractions);
      numbers.rate = static_cast<float>(std::min(learning_rate, 1 / std::sqrt(updates)) * fraction);
      numbers.beta2 = static_cast<float>(std::pow(1 - std::pow(updates, -config.decay_power), fraction));
      numbers.threshold = static_cast<float>(config.threshold);
      break;
    }
    case OptimizerKind::kRmsprop:
      set_momentum(config, fraction, numbers);
      numbers.beta2 = static_cast<float>(std::pow(config.beta2, fraction));
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kLamb:
    case OptimizerKind::kAdamax:
      numbers.beta1 = static_cast<float>(std::pow(config.beta1, fraction));
      numbers.beta2 = static_cast<float>(std::pow(config.beta2, fraction));
      numbers.correction1 = static_cast<float>(1.0 - std::pow(config.beta1, fractions));
      numbers.correction2 = static_cast<float>(1.0 - std::pow(config.beta2, fractions));
      break;
    case OptimizerKind::kLion:
      numbers.beta1 = static_cast<float>(config.beta1);
      numbers.beta2 = static_cast<float>(std::pow(config.beta2, fraction));
      break;
  }
  return numbers;
}

float clip_factor(double norm, double clip) { return limiting_factor(norm, clip); }

float statistics_pull(double fraction) {
  constexpr double kMoved = 0.1;
  return static_cast<float>(fraction == 1 ? 1 : (1 - std::pow(1 - kMoved, fraction)) / kMoved);
}

StepNumbers averaging_numbers() { return {.rate = 1}; }

}  // namespace paceline::ps

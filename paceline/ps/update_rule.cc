#include "paceline/ps/update_rule.h"

#include <cmath>

namespace paceline::ps {

int state_streams(OptimizerKind kind) { return kind == OptimizerKind::kSgd ? 1 : 2; }

StepNumbers step_numbers(const OptimizerConfig& config, double learning_rate, double fraction,
                         double fractions) {
  StepNumbers numbers;
  learning_rate *= config.rate;
  if (config.kind == OptimizerKind::kSgd) {
    numbers.momentum = static_cast<float>(std::pow(config.momentum, fraction));
    // From the momenta as rounded: 1 − μ^f is small, and a rounding of μ^f alone would show in it. At f = 1
    // the gain is exactly 1, so a bulk commit is plain SGD to the last bit.
    numbers.gain = static_cast<float>((1.0 - double{numbers.momentum}) /
                                      (1.0 - double{static_cast<float>(config.momentum)}));
    numbers.rate = static_cast<float>(learning_rate * fraction);
    numbers.coupled_decay = static_cast<float>(config.weight_decay);
    return numbers;
  }
  numbers.rate = static_cast<float>(learning_rate * fraction);
  numbers.beta1 = static_cast<float>(std::pow(config.beta1, fraction));
  numbers.beta2 = static_cast<float>(std::pow(config.beta2, fraction));
  numbers.correction1 = static_cast<float>(1.0 - std::pow(config.beta1, fractions));
  numbers.correction2 = static_cast<float>(1.0 - std::pow(config.beta2, fractions));
  numbers.epsilon = static_cast<float>(config.epsilon);
  const bool decoupled = config.kind == OptimizerKind::kAdamW;
  (decoupled ? numbers.shrink : numbers.coupled_decay) =
      static_cast<float>(decoupled ? learning_rate * fraction * config.weight_decay : config.weight_decay);
  return numbers;
}

float statistics_pull(double fraction) {
  constexpr double kMoved = 0.1;
  return static_cast<float>(fraction == 1 ? 1 : (1 - std::pow(1 - kMoved, fraction)) / kMoved);
}

StepNumbers averaging_numbers() { return {.rate = 1}; }

}  // namespace paceline::ps

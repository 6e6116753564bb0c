#include "paceline/parameters/ps/update_rule.h"

#include <algorithm>
#include <cmath>

#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

const OptimizerTraits& traits_of(OptimizerKind kind) {
  return with_spec(kind, [](auto spec) -> const OptimizerTraits& { return decltype(spec)::kTraits; });
}

bool is_tensorwise(OptimizerKind kind) {
#define PACELINE_NO(Name, name) \
  case OptimizerKind::k##Name:  \
    return false;
#define PACELINE_YES(Name, name) \
  case OptimizerKind::k##Name:   \
    return true;
  switch (kind) { PACELINE_EACH_OPTIMIZER(PACELINE_NO, PACELINE_YES) }
#undef PACELINE_NO
#undef PACELINE_YES
  return false;
}

OptimizerConfig usual_config(OptimizerKind kind) {
  OptimizerConfig config = traits_of(kind).usual;
  config.kind = kind;
  return config;
}

int state_streams(OptimizerKind kind) { return traits_of(kind).state[1] == nullptr ? 1 : 2; }

StepNumbers step_numbers(const OptimizerConfig& config, double learning_rate, double fraction,
                         double fractions) {
  const OptimizerTraits& traits = traits_of(config.kind);
  learning_rate *= config.rate;
  // A group without a state has made no update before this one.
  fractions = std::max(fraction, fractions - config.steps_behind);
  StepNumbers numbers;
  numbers.rate = static_cast<float>(learning_rate * fraction);
  numbers.epsilon = static_cast<float>(config.epsilon);
  numbers.own = static_cast<float>(config.own);
  (traits.decoupled ? numbers.shrink : numbers.coupled_decay) = static_cast<float>(
      traits.decoupled ? learning_rate * fraction * config.weight_decay : config.weight_decay);
  traits.set_numbers(config, {learning_rate, fraction, fractions}, numbers);
  return numbers;
}

float clip_factor(double norm, double clip) { return limiting_factor(norm, clip); }

float statistics_pull(double fraction) {
  constexpr double kMoved = 0.1;
  return static_cast<float>(fraction == 1 ? 1 : (1 - std::pow(1 - kMoved, fraction)) / kMoved);
}

StepNumbers averaging_numbers() { return {.rate = 1}; }

}  // namespace paceline::ps

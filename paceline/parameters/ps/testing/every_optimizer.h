// The optimizers for a test of all of them, with numbers such that nothing in a step is 0. So such a test finds a new
// optimizer in the table (optimizers/list.h).
#pragma once

#include <vector>

#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps::testing {

inline std::vector<OptimizerConfig> every_optimizer() {
  std::vector<OptimizerConfig> all;
  for (const OptimizerKind kind : kEveryOptimizer) {
    OptimizerConfig config = usual_config(kind);
    config.weight_decay = 1e-2;
    if (config.momentum == 0) config.momentum = 0.5;
    config.own = 0.25;
    all.push_back(config);
  }
  return all;
}

// The optimizers that step each number by itself.
inline std::vector<OptimizerConfig> elementwise_optimizers() {
  std::vector<OptimizerConfig> all = every_optimizer();
  std::erase_if(all, [](const OptimizerConfig& one) { return is_tensorwise(one.kind); });
  return all;
}

inline std::vector<OptimizerConfig> optimizers_with_direction() {
  std::vector<OptimizerConfig> all = every_optimizer();
  std::erase_if(all, [](const OptimizerConfig& one) { return !has_direction(one.kind); });
  return all;
}

}  // namespace paceline::ps::testing

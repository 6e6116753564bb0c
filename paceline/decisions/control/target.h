// The goal of a run on the test set: at least or at most so much of one metric.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "paceline/decisions/control/run_listener.h"

namespace paceline::control {

struct Target {
  std::string metric = "accuracy";  // "accuracy" (0..1), "loss", or one of the user's own
  double value = 0;
  bool at_most = false;
};

// The value of one metric; nothing if the evaluation has none of that name.
inline std::optional<double> value_of(const std::string& metric, const Evaluated& evaluated) {
  const auto known = [](double value) { return std::isnan(value) ? std::nullopt : std::optional(value); };
  if (metric == "accuracy") return known(evaluated.accuracy);
  if (metric == "loss") return known(evaluated.loss);
  const auto found = evaluated.metrics.find(metric);
  return found == evaluated.metrics.end() ? std::nullopt : known(found->second);
}

inline bool meets(const Target& target, const Evaluated& evaluated) {
  const std::optional<double> value = value_of(target.metric, evaluated);
  return value && (target.at_most ? *value <= target.value : *value >= target.value);
}

}  // namespace paceline::control

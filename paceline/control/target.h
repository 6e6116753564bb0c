// What a run is to reach on the test set: at least this accuracy (0..1), or at most this loss (nats).
#pragma once

#include "paceline/control/run_listener.h"

namespace paceline::control {

struct Target {
  enum Metric { kAccuracy, kLoss };
  Metric metric = kAccuracy;
  double value = 0;
};

inline bool meets(const Target& target, const Evaluated& evaluated) {
  return target.metric == Target::kAccuracy ? evaluated.accuracy >= target.value
                                            : evaluated.loss <= target.value;
}

}  // namespace paceline::control

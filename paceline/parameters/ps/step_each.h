// The loops of processors over an optimizer's Step (optimizer_spec.h). For files that are compiled as fused_update.cc is:
// the same bytes on every processor.
#pragma once

#include <cstdint>

#include "paceline/base/vectorized.h"
#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

// Steps n weights and their state. `state2` and `next2` are not looked at if there is only one state. The state of the
// version before and the new state may be the same memory.
template <class Step>
PACELINE_VECTORIZED static Marks step_each(const StepNumbers& numbers, const float* __restrict gradient,
                                           const float* __restrict weights, float* __restrict next,
                                           const float* state1, float* next1, const float* state2,
                                           float* next2, std::int64_t n) {
  const Step step(numbers);
  Marks marks = 0;
  PACELINE_INDEPENDENT_PASSES
  for (std::int64_t i = 0; i < n; ++i) {
    const Stepped to = step(gradient[i], weights[i], state1[i], Step::kStates == 2 ? state2[i] : 0);
    if constexpr (Step::kStates == 2) next2[i] = to.state2;
    next1[i] = to.state1;
    next[i] = to.weight;
    marks |= step.marks_of(to);
  }
  return marks;
}

// Writes the direction of n weights, of their state as it is.
template <class Step>
PACELINE_VECTORIZED static void direction_of_each(const StepNumbers& numbers, const float* __restrict state1,
                                                  const float* __restrict state2, float* __restrict direction,
                                                  std::int64_t n) {
  const Step step(numbers);
  for (std::int64_t i = 0; i < n; ++i)
    direction[i] = step.direction(state1[i], Step::kStates == 2 ? state2[i] : 0);
}

}  // namespace paceline::ps

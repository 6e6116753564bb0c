// The arithmetic of Σ weight_i · values_i, wherever it is done: the same order gives the same bits.
// Vectorized for the processor it runs on. Any thread.
#pragma once

#include <cstdint>

namespace paceline::collective {

// sum = weight · values, for n elements that do not overlap.
void product(float* sum, const float* values, float weight, std::int64_t n);
// sum += weight · values, with the same requirements.
void accumulate(float* sum, const float* values, float weight, std::int64_t n);

}  // namespace paceline::collective

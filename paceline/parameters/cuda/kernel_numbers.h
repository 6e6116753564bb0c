// The numbers that kernels load and store: one at a time, or four, which is one load or store where they are aligned.
#pragma once

#include <cstdint>

#include "paceline/parameters/ps/step_math.h"

#define PACELINE_KERNEL PACELINE_STEP_MATH
#ifdef __CUDA__
#define PACELINE_UNROLL _Pragma("unroll")
#define PACELINE_UNROLL_4 _Pragma("unroll 4")
#define PACELINE_UNROLL_8 _Pragma("unroll 8")
#else
#define PACELINE_UNROLL
#define PACELINE_UNROLL_4
#define PACELINE_UNROLL_8
#endif

namespace paceline::cuda {

using Four = float __attribute__((vector_size(16), may_alias));
using FourNarrow = ps::Bfloat16 __attribute__((vector_size(8), may_alias));
inline constexpr std::int32_t kFour = 4;

PACELINE_KERNEL bool aligned(const float* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % sizeof(Four) == 0;
}
PACELINE_KERNEL bool aligned(const ps::Bfloat16* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % sizeof(FourNarrow) == 0;
}

// Each number of a vector, or a number that is alone.
PACELINE_KERNEL int width(float) { return 1; }
PACELINE_KERNEL int width(Four) { return kFour; }
PACELINE_KERNEL float get(float number, int) { return number; }
PACELINE_KERNEL float get(Four number, int i) { return number[i]; }
PACELINE_KERNEL void set(float& number, int, float value) { number = value; }
PACELINE_KERNEL void set(Four& number, int i, float value) { number[i] = value; }

// `Number` is float or Four.
template <class Number>
PACELINE_KERNEL Number load(const float* at) {
  return *reinterpret_cast<const Number*>(at);
}
template <class Number>
PACELINE_KERNEL Number load(const ps::Bfloat16* at) {
  if constexpr (sizeof(Number) == sizeof(float)) {
    return ps::widened(*at);
  } else {
    const auto narrow = *reinterpret_cast<const FourNarrow*>(at);
    Number number{};
    PACELINE_UNROLL
    for (int i = 0; i < kFour; ++i) set(number, i, ps::widened(narrow[i]));
    return number;
  }
}
template <class Number>
PACELINE_KERNEL void store(float* at, Number number) {
  *reinterpret_cast<Number*>(at) = number;
}
template <class Number>
PACELINE_KERNEL void store(ps::Bfloat16* at, Number number) {
  if constexpr (sizeof(Number) == sizeof(float)) {
    *at = ps::narrowed(number);
  } else {
    FourNarrow narrow{};
    PACELINE_UNROLL
    for (int i = 0; i < kFour; ++i) narrow[i] = ps::narrowed(number[i]);
    *reinterpret_cast<FourNarrow*>(at) = narrow;
  }
}

}  // namespace paceline::cuda

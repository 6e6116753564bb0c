// The arithmetic that all optimizers have in common, for the loops of processors (fused_update.cc) and for the
// kernels of cards (cuda/). Compiled with -ffp-contract=off it has the same bits on both: products and sums are
// rounded one by one, and square roots and quotients are rounded correctly everywhere. No library but the
// compiler's.
#pragma once

#include <cstdint>

#include "paceline/parameters/ps/bfloat16.h"

#ifdef __CUDA__  // clang compiles for a card
#define PACELINE_STEP_MATH __attribute__((device, always_inline)) inline
#else
#define PACELINE_STEP_MATH __attribute__((always_inline)) inline
#endif

namespace paceline::ps {

// A number that is not finite has an exponent of ones alone, which carries over into the sign here. So the
// sign of the bitwise or of many marks says whether one of the numbers was not finite: two instructions a
// number and no branch.
using Marks = std::uint32_t;
PACELINE_STEP_MATH Marks mark_of(float value) {
  return (__builtin_bit_cast(std::uint32_t, value) & 0x7f800000u) + 0x00800000u;
}
PACELINE_STEP_MATH bool finite(Marks marks) { return marks >> 31 == 0; }

// Exact.
PACELINE_STEP_MATH float widened(Bfloat16 bits) {
  return __builtin_bit_cast(float, std::uint32_t{bits} << 16);
}
// The nearest number, ties to even. NaN stays NaN.
PACELINE_STEP_MATH Bfloat16 narrowed(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<Bfloat16>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

// Σ weight_i · value_i goes in the order of members: the first one's product, then each of the others added.
PACELINE_STEP_MATH float product(float weight, float value) { return weight * value; }
PACELINE_STEP_MATH float added(float sum, float weight, float value) { return sum + weight * value; }

// 0 if both numbers have the same bits. A statistic that has the same value at all members keeps it: shares in float32
// need not add up to 1, and a buffer that nobody changes would move with each commit.
PACELINE_STEP_MATH std::uint32_t difference(float a, float b) {
  return __builtin_bit_cast(std::uint32_t, a) ^ __builtin_bit_cast(std::uint32_t, b);
}

// A statistic after a commit that goes a part of the way to the members' mean.
PACELINE_STEP_MATH float part_way(float before, float pull, float mean) {
  return before + pull * (mean - before);
}

// 1, 0 or −1; of NaN 0.
PACELINE_STEP_MATH float sign_of(float value) {
  return (value > 0.0f ? 1.0f : 0.0f) - (value < 0.0f ? 1.0f : 0.0f);
}

// The result of a step for one weight and its state. `state2` is 0 if the optimizer has only one.
struct Stepped {
  float weight;
  float state1;
  float state2;
};

// Each optimizer's Step (optimizers/) is made of the numbers of a step and is called with a weight's gradient, the weight
// and its state; kStates says how many floats that is. marks_of() looks at enough of what a step made: the rest is finite
// if that is. direction() is that of UpdateStreams.

// The squared norm of a commit's gradient is a fixed tree of sums in double precision, so that it does not
// depend on how work is shared. Each block of kSquaresBlock numbers of a tensor is summed in lanes: number i
// goes to lane i mod kSquaresLanes. The last numbers of a tensor that do not fill all lanes are summed in
// order, and then the lanes are added to that in order. Blocks are summed in order in groups of
// kSquaresGroup, and so are the groups.
inline constexpr std::int64_t kSquaresBlock = 2048;
inline constexpr std::int64_t kSquaresLanes = 16;
inline constexpr std::int64_t kSquaresGroup = 64;

PACELINE_STEP_MATH double square_added(double sum, float value) {
  return sum + static_cast<double>(value) * static_cast<double>(value);
}

PACELINE_STEP_MATH double sum_in_order(double sum, const double* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum += values[i];
  return sum;
}

// clip_factor() of update_rule.h.
PACELINE_STEP_MATH float limiting_factor(double norm, double clip) {
  if (!__builtin_isfinite(norm)) return 1;
  const double factor = clip / (norm + 1e-6);
  return static_cast<float>(factor < 1.0 ? factor : 1.0);
}

// ---- LARS, LAMB and Adafactor, which step a tensor as a whole ----
//
// The squared norm of a tensor is the same tree of sums as that of a gradient.

// A ratio of norms is 1 if one of them is 0. If a norm is not finite, neither is the ratio, nor are the
// weights: it is seen there.
PACELINE_STEP_MATH float ratio_of(double over, double under) {
  return over == 0 || under == 0 ? 1.0f : static_cast<float>(over / under);
}

// The next weight, of LAMB (which keeps all of the weight) and of Adafactor.
PACELINE_STEP_MATH float go(float kept, float weight, float rate, float step) {
  return kept * weight - rate * step;
}

}  // namespace paceline::ps

// The arithmetic of one number of a commit, for the loops of processors (fused_update.cc) and for the kernels
// of cards (cuda/). Compiled with -ffp-contract=off it has the same bits on both: products and sums are
// rounded one by one, and square roots and quotients are rounded correctly everywhere. No library but the
// compiler's.
#pragma once

#include <cstdint>

#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/update_rule.h"

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

// Each optimizer below is made of the numbers of a step and is called with a weight's gradient, the weight
// and its state. marks_of() looks at enough of what a step made: the rest is finite if that is. direction()
// is that of UpdateStreams.

class SgdStep {
 public:
  static constexpr int kStates = 1;
  PACELINE_STEP_MATH explicit SgdStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        momentum_(numbers.momentum),
        gain_(numbers.gain),
        decay_(numbers.coupled_decay),
        direction_(numbers.direction) {}
  // LARS: SGD with a gain for each tensor, lars_gain().
  PACELINE_STEP_MATH SgdStep(const StepNumbers& numbers, float gain) : SgdStep(numbers) { gain_ = gain; }

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float velocity, float) const {
    const float next = momentum_ * velocity + gain_ * (gradient + decay_ * weight);
    return {weight - rate_ * next, next, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const { return mark_of(to.weight); }
  PACELINE_STEP_MATH float direction(float velocity, float) const { return direction_ * velocity; }

 private:
  float rate_, momentum_, gain_, decay_, direction_;
};

class NesterovStep {
 public:
  static constexpr int kStates = 1;
  PACELINE_STEP_MATH explicit NesterovStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        momentum_(numbers.momentum),
        gain_(numbers.gain),
        decay_(numbers.coupled_decay),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float velocity, float) const {
    const float g = gain_ * (gradient + decay_ * weight);
    const float next = momentum_ * velocity + g;
    return {weight - rate_ * (g + momentum_ * next), next, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const { return mark_of(to.weight); }
  PACELINE_STEP_MATH float direction(float velocity, float) const { return direction_ * velocity; }

 private:
  float rate_, momentum_, gain_, decay_, direction_;
};

class RmspropStep {
 public:
  static constexpr int kStates = 2;
  PACELINE_STEP_MATH explicit RmspropStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        momentum_(numbers.momentum),
        gain_(numbers.gain),
        decay_(numbers.coupled_decay),
        beta2_(numbers.beta2),
        epsilon_(numbers.epsilon),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float moving, float squares) const {
    const float g = gradient + decay_ * weight;
    const float next_squares = beta2_ * squares + (1.0f - beta2_) * g * g;
    const float next_moving = momentum_ * moving + gain_ * (g / (__builtin_sqrtf(next_squares) + epsilon_));
    return {weight - rate_ * next_moving, next_moving, next_squares};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state2);
  }
  PACELINE_STEP_MATH float direction(float moving, float) const { return direction_ * moving; }

 private:
  float rate_, momentum_, gain_, decay_, beta2_, epsilon_, direction_;
};

class LionStep {
 public:
  static constexpr int kStates = 1;
  PACELINE_STEP_MATH explicit LionStep(const StepNumbers& numbers)
      : rate_(numbers.rate),
        shrink_(numbers.shrink),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float momentum, float) const {
    const float both = beta1_ * momentum + (1.0f - beta1_) * gradient;
    const float shrunk = weight - shrink_ * weight;
    return {shrunk - rate_ * sign_of(both), beta2_ * momentum + (1.0f - beta2_) * gradient, 0};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state1);
  }
  PACELINE_STEP_MATH float direction(float momentum, float) const { return direction_ * sign_of(momentum); }

 private:
  float rate_, shrink_, beta1_, beta2_, direction_;
};

// Adam, and AdamW: their numbers alone differ.
class AdamStep {
 public:
  static constexpr int kStates = 2;
  PACELINE_STEP_MATH explicit AdamStep(const StepNumbers& numbers)
      : rate_(numbers.rate / numbers.correction1),
        shrink_(numbers.shrink),
        decay_(numbers.coupled_decay),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        correction1_(numbers.correction1),
        root_correction_(__builtin_sqrtf(numbers.correction2)),
        epsilon_(numbers.epsilon),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float second) const {
    const float g = gradient + decay_ * weight;
    const float next_first = beta1_ * first + (1.0f - beta1_) * g;
    const float next_second = beta2_ * second + (1.0f - beta2_) * g * g;
    const float shrunk = weight - shrink_ * weight;
    const float root = __builtin_sqrtf(next_second) / root_correction_ + epsilon_;
    return {shrunk - rate_ * next_first / root, next_first, next_second};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const {
    return mark_of(to.weight) | mark_of(to.state2);
  }
  PACELINE_STEP_MATH float direction(float first, float second) const {
    const float root = __builtin_sqrtf(second) / root_correction_ + epsilon_;
    return direction_ * (first / correction1_ / root);
  }

 private:
  float rate_, shrink_, decay_, beta1_, beta2_, correction1_, root_correction_, epsilon_, direction_;
};

class AdamaxStep {
 public:
  static constexpr int kStates = 2;
  PACELINE_STEP_MATH explicit AdamaxStep(const StepNumbers& numbers)
      : rate_(numbers.rate / numbers.correction1),
        decay_(numbers.coupled_decay),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        correction1_(numbers.correction1),
        epsilon_(numbers.epsilon),
        direction_(numbers.direction) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float largest) const {
    const float g = gradient + decay_ * weight;
    const float next_first = beta1_ * first + (1.0f - beta1_) * g;
    const float now = __builtin_fabsf(g) + epsilon_;
    const float kept = beta2_ * largest;
    const float next_largest = kept > now ? kept : now;  // a gradient that is NaN stays
    return {weight - rate_ * next_first / next_largest, next_first, next_largest};
  }
  PACELINE_STEP_MATH Marks marks_of(const Stepped& to) const { return mark_of(to.weight); }
  PACELINE_STEP_MATH float direction(float first, float largest) const {
    return largest > 0.0f ? direction_ * (first / correction1_ / largest) : 0.0f;  // 0: no step yet
  }

 private:
  float rate_, decay_, beta1_, beta2_, correction1_, epsilon_, direction_;
};

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

// `adapted`: whether the tensor's step is multiplied by a ratio of norms.
PACELINE_STEP_MATH float lars_gain(const StepNumbers& numbers, bool adapted, double weights,
                                   double gradient) {
  if (!adapted) return numbers.gain;
  const double under = gradient + static_cast<double>(numbers.coupled_decay) * weights;
  const double over = static_cast<double>(numbers.trust) * weights;
  return numbers.gain * (gradient == 0 ? 1.0f : ratio_of(over, under));
}

// LAMB's `weight` is the step along which the weight goes, and not the next weight.
class LambStep {
 public:
  PACELINE_STEP_MATH explicit LambStep(const StepNumbers& numbers)
      : decay_(numbers.coupled_decay),
        beta1_(numbers.beta1),
        beta2_(numbers.beta2),
        correction1_(numbers.correction1),
        root_correction_(__builtin_sqrtf(numbers.correction2)),
        epsilon_(numbers.epsilon) {}

  PACELINE_STEP_MATH Stepped operator()(float gradient, float weight, float first, float second) const {
    const float next_first = beta1_ * first + (1.0f - beta1_) * gradient;
    const float next_second = beta2_ * second + (1.0f - beta2_) * gradient * gradient;
    const float root = __builtin_sqrtf(next_second) / root_correction_ + epsilon_;
    return {next_first / correction1_ / root + decay_ * weight, next_first, next_second};
  }

 private:
  float decay_, beta1_, beta2_, correction1_, root_correction_, epsilon_;
};

PACELINE_STEP_MATH float lamb_rate(const StepNumbers& numbers, bool adapted, double weights, double step) {
  return numbers.rate * (adapted ? ratio_of(weights, step) : 1.0f);
}

// The next weight, of LAMB (which keeps all of the weight) and of Adafactor.
PACELINE_STEP_MATH float go(float kept, float weight, float rate, float step) {
  return kept * weight - rate * step;
}

// ε₁ of Adafactor, as torch.optim has it.
inline constexpr float kLeastMean = 0x1p-23f;
inline constexpr float kLeastSquare = kLeastMean * kLeastMean;
// Adafactor adds the squares of a matrix's columns, and the means of its rows, in chunks of so many rows,
// each in order, and then the chunks in order.
inline constexpr std::int64_t kChunkRows = 256;

// A mean of squares after an update that brings `square`.
PACELINE_STEP_MATH float kept_mean(float beta2, float mean, float square) {
  return beta2 * mean + (1.0f - beta2) * square;
}
PACELINE_STEP_MATH float kept_square(float beta2, float mean, float gradient) {
  return beta2 * mean + (1.0f - beta2) * gradient * gradient;
}
// `share`: (1 − β2) / height.
PACELINE_STEP_MATH float kept_column(float beta2, float mean, float share, float sum) {
  return beta2 * mean + share * sum;
}
PACELINE_STEP_MATH float divided_by_root(float gradient, float square) {
  return gradient / __builtin_sqrtf(square < kLeastSquare ? kLeastSquare : square);
}
PACELINE_STEP_MATH double mean_of_rows(double sum, std::int64_t height) {
  const double mean = sum / static_cast<double>(height);
  return mean < static_cast<double>(kLeastMean) ? static_cast<double>(kLeastMean) : mean;
}
PACELINE_STEP_MATH float row_factor(float row, double mean) {
  return static_cast<float>(static_cast<double>(row) / mean);
}
PACELINE_STEP_MATH float adafactor_rate(const StepNumbers& numbers, std::int64_t size, double weights,
                                        double step) {
  const double root_of_size = __builtin_sqrt(static_cast<double>(size));
  const double limited = step / (root_of_size * static_cast<double>(numbers.threshold));
  const double mean = weights / root_of_size, least = static_cast<double>(numbers.epsilon);
  const double scale = least < mean ? mean : least;
  return static_cast<float>(static_cast<double>(numbers.rate) * scale / (1.0 < limited ? limited : 1.0));
}

}  // namespace paceline::ps

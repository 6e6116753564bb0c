#include "paceline/ps/fused_update.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "paceline/base/check.h"
#include "paceline/base/vectorized.h"
#include "paceline/collective/weighted_sum.h"

namespace paceline::ps {

namespace {

// Members are summed block by block, so that the sum stays in the first-level cache: 8 kB.
constexpr std::int64_t kBlock = kSquaresBlock;

// What is not finite has an exponent of ones alone, which carries over into the sign here. So the sign of the
// bitwise or of many of these says whether one of them was not: two instructions a number and no branch. What
// a kernel writes but does not look at cannot be other than finite while what it looks at is.
using Marks = std::uint32_t;
inline Marks mark_of(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) + 0x00800000u;
}
bool finite(Marks marks) { return marks >> 31 == 0; }

PACELINE_VECTORIZED Marks sgd(const StepNumbers& k, const float* __restrict gradient,
                              const float* __restrict weights, float* __restrict next,
                              float* __restrict velocity, std::int64_t n) {
  const float rate = k.rate;
  const float momentum = k.momentum;
  const float gain = k.gain;
  const float decay = k.coupled_decay;
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    velocity[i] = momentum * velocity[i] + gain * (gradient[i] + decay * weights[i]);
    next[i] = weights[i] - rate * velocity[i];
    marks |= mark_of(next[i]);
  }
  return marks;
}

PACELINE_VECTORIZED Marks nesterov(const StepNumbers& k, const float* __restrict gradient,
                                   const float* __restrict weights, float* __restrict next,
                                   float* __restrict velocity, std::int64_t n) {
  const float rate = k.rate;
  const float momentum = k.momentum;
  const float gain = k.gain;
  const float decay = k.coupled_decay;
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gain * (gradient[i] + decay * weights[i]);
    velocity[i] = momentum * velocity[i] + g;
    next[i] = weights[i] - rate * (g + momentum * velocity[i]);
    marks |= mark_of(next[i]);
  }
  return marks;
}

PACELINE_VECTORIZED Marks rmsprop(const StepNumbers& k, const float* __restrict gradient,
                                  const float* __restrict weights, float* __restrict next,
                                  float* __restrict moving, float* __restrict squares, std::int64_t n) {
  const StepNumbers c = k;
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] + c.coupled_decay * weights[i];
    squares[i] = c.beta2 * squares[i] + (1.0f - c.beta2) * g * g;
    moving[i] = c.momentum * moving[i] + c.gain * (g / (std::sqrt(squares[i]) + c.epsilon));
    next[i] = weights[i] - c.rate * moving[i];
    marks |= mark_of(next[i]) | mark_of(squares[i]);
  }
  return marks;
}

PACELINE_VECTORIZED Marks lion(const StepNumbers& k, const float* __restrict gradient,
                               const float* __restrict weights, float* __restrict next,
                               float* __restrict momentum, std::int64_t n) {
  const StepNumbers c = k;
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float both = c.beta1 * momentum[i] + (1.0f - c.beta1) * gradient[i];
    const float sign = (both > 0.0f ? 1.0f : 0.0f) - (both < 0.0f ? 1.0f : 0.0f);
    const float shrunk = weights[i] - c.shrink * weights[i];
    next[i] = shrunk - c.rate * sign;
    momentum[i] = c.beta2 * momentum[i] + (1.0f - c.beta2) * gradient[i];
    marks |= mark_of(next[i]) | mark_of(momentum[i]);
  }
  return marks;
}

PACELINE_VECTORIZED Marks adam(const StepNumbers& k, const float* __restrict gradient,
                               const float* __restrict weights, float* __restrict next,
                               float* __restrict first, float* __restrict second, std::int64_t n) {
  const StepNumbers c = k;
  const float root_correction = std::sqrt(c.correction2);
  const float rate = c.rate / c.correction1;
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] + c.coupled_decay * weights[i];
    first[i] = c.beta1 * first[i] + (1.0f - c.beta1) * g;
    second[i] = c.beta2 * second[i] + (1.0f - c.beta2) * g * g;
    const float shrunk = weights[i] - c.shrink * weights[i];
    next[i] = shrunk - rate * first[i] / (std::sqrt(second[i]) / root_correction + c.epsilon);
    marks |= mark_of(next[i]) | mark_of(second[i]);
  }
  return marks;
}

PACELINE_VECTORIZED void adam_direction(const StepNumbers& k, const float* __restrict first,
                                        const float* __restrict second, float* __restrict direction,
                                        std::int64_t n) {
  const float root_correction = std::sqrt(k.correction2);
  const float correction = k.correction1;
  const float epsilon = k.epsilon;
  const float scale = k.direction;
  for (std::int64_t i = 0; i < n; ++i)
    direction[i] = scale * (first[i] / correction / (std::sqrt(second[i]) / root_correction + epsilon));
}

PACELINE_VECTORIZED void scaled(float scale, const float* __restrict from, float* __restrict to,
                                std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = scale * from[i];
}

PACELINE_VECTORIZED void multiply(float factor, float* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = factor * values[i];
}

// In lanes of its own, so that the order of the sum does not depend on how wide a vector is.
PACELINE_VECTORIZED double squares_in_lanes(const float* __restrict values, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < n; ++i) sum += double{values[i]} * double{values[i]};
  for (const double lane : lanes) sum += lane;
  return sum;
}

PACELINE_VECTORIZED Marks marks_of(const float* values, std::int64_t n) {
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) marks |= mark_of(values[i]);
  return marks;
}

PACELINE_VECTORIZED void signs(float scale, const float* __restrict from, float* __restrict to,
                               std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = scale * ((from[i] > 0.0f ? 1.0f : 0.0f) - (from[i] < 0.0f ? 1.0f : 0.0f));
}

Marks step(OptimizerKind kind, const StepNumbers& numbers, const float* gradient,
           const UpdateStreams& streams, std::int64_t at, std::int64_t n) {
  const float* weights = streams.weights + at;
  float* next = streams.next_weights + at;
  float* state1 = streams.state1 + at;
  switch (kind) {
    case OptimizerKind::kSgd:
      return sgd(numbers, gradient, weights, next, state1, n);
    case OptimizerKind::kNesterov:
      return nesterov(numbers, gradient, weights, next, state1, n);
    case OptimizerKind::kRmsprop:
      return rmsprop(numbers, gradient, weights, next, state1, streams.state2 + at, n);
    case OptimizerKind::kLion:
      return lion(numbers, gradient, weights, next, state1, n);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return adam(numbers, gradient, weights, next, state1, streams.state2 + at, n);
    case OptimizerKind::kLars:
    case OptimizerKind::kLamb:
    case OptimizerKind::kAdafactor:
      break;  // tensorwise.h
  }
  PACELINE_CHECK(false, "an optimizer that steps whole tensors in parts of them");
  return 0;
}

void weighted_sum(std::span<const Weighted> members, float* sum, std::int64_t begin, std::int64_t n) {
  collective::product(sum, members[0].values + begin, members[0].weight, n);
  for (const Weighted& member : members.subspan(1))
    collective::accumulate(sum, member.values + begin, member.weight, n);
}

}  // namespace

bool fused_update(OptimizerKind kind, const StepNumbers& numbers, std::span<const Weighted> members,
                  const UpdateStreams& streams, std::int64_t begin, std::int64_t end) {
  alignas(64) float sum[kBlock];
  Marks marks = 0;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    weighted_sum(members, sum, at, n);
    if (numbers.gradient != 1) multiply(numbers.gradient, sum, n);
    marks |= step(kind, numbers, sum, streams, at, n);
    // While the block is in the cache.
    if (streams.direction != nullptr) update_direction(kind, numbers, streams, at, at + n);
  }
  return finite(marks);
}

double sum_of_squares(std::span<const Weighted> members, std::int64_t begin, std::int64_t end) {
  alignas(64) float sum[kBlock];
  weighted_sum(members, sum, begin, end - begin);
  return squares_in_lanes(sum, end - begin);
}

double squares_of(const float* values, std::int64_t n) { return squares_in_lanes(values, n); }

bool all_finite(const float* values, std::int64_t n) { return finite(marks_of(values, n)); }

bool all_finite(const Layout& layout, const float* gradient) {
  const auto moving = layout.moving();
  return std::all_of(moving.begin(), moving.end(), [&](const Layout::Range& range) {
    return all_finite(gradient + range.begin, range.end - range.begin);
  });
}

void update_direction(OptimizerKind kind, const StepNumbers& numbers, const UpdateStreams& streams,
                      std::int64_t begin, std::int64_t end) {
  const float* state1 = streams.state1 + begin;
  float* direction = streams.direction + begin;
  switch (kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kRmsprop:
    case OptimizerKind::kLars:
      return scaled(numbers.direction, state1, direction, end - begin);
    case OptimizerKind::kLion:
      return signs(numbers.direction, state1, direction, end - begin);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return adam_direction(numbers, state1, streams.state2 + begin, direction, end - begin);
    case OptimizerKind::kLamb:
    case OptimizerKind::kAdafactor:
      PACELINE_CHECK(false, "an optimizer without a direction");
  }
}

void pull_part_way(const float* before, float pull, float* next, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) next[i] = before[i] + pull * (next[i] - before[i]);
}

void fused_average(std::span<const Weighted> members, float* next, std::int64_t begin, std::int64_t end) {
  weighted_sum(members, next + begin, begin, end - begin);
}

}  // namespace paceline::ps

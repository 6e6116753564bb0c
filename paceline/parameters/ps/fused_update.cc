#include "paceline/parameters/ps/fused_update.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "paceline/base/check.h"
#include "paceline/base/vectorized.h"
#include "paceline/parameters/ps/look_ahead.h"
#include "paceline/parameters/ps/step_each.h"
#include "paceline/parameters/ps/step_math.h"
#include "paceline/transport/collective/weighted_sum.h"

namespace paceline::ps {

namespace {

// Members are summed block by block, so that the sum stays in the first-level cache: 8 kB.
constexpr std::int64_t kBlock = kSquaresBlock;

PACELINE_VECTORIZED void multiply(float factor, float* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = factor * values[i];
}

// In lanes of its own, so that the order of the sum does not depend on how wide a vector is.
PACELINE_VECTORIZED double squares_in_lanes(const float* __restrict values, std::int64_t n) {
  double lanes[kSquaresLanes] = {};
  std::int64_t i = 0;
  for (; i + kSquaresLanes <= n; i += kSquaresLanes) {
    for (std::int64_t lane = 0; lane < kSquaresLanes; ++lane)
      lanes[lane] = square_added(lanes[lane], values[i + lane]);
  }
  double sum = 0;
  for (; i < n; ++i) sum = square_added(sum, values[i]);
  return sum_in_order(sum, lanes, kSquaresLanes);
}

// The same sums of the same numbers.
PACELINE_VECTORIZED double narrow_squares_in_lanes(const Bfloat16* __restrict values, std::int64_t n) {
  double lanes[kSquaresLanes] = {};
  std::int64_t i = 0;
  for (; i + kSquaresLanes <= n; i += kSquaresLanes) {
    for (std::int64_t lane = 0; lane < kSquaresLanes; ++lane)
      lanes[lane] = square_added(lanes[lane], widened(values[i + lane]));
  }
  double sum = 0;
  for (; i < n; ++i) sum = square_added(sum, widened(values[i]));
  return sum_in_order(sum, lanes, kSquaresLanes);
}

PACELINE_VECTORIZED Marks marks_of(const float* values, std::int64_t n) {
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) marks |= mark_of(values[i]);
  return marks;
}

PACELINE_VECTORIZED Marks narrow_marks_of(const Bfloat16* values, std::int64_t n) {
  Marks marks = 0;
  for (std::int64_t i = 0; i < n; ++i) marks |= mark_of(widened(values[i]));
  return marks;
}

PACELINE_VECTORIZED void narrow_product(float* __restrict sum, const Bfloat16* __restrict values,
                                        float weight, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = product(weight, widened(values[i]));
}

PACELINE_VECTORIZED void narrow_accumulate(float* __restrict sum, const Bfloat16* __restrict values,
                                           float weight, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = added(sum[i], weight, widened(values[i]));
}

PACELINE_VECTORIZED void round_to_narrow(const float* __restrict weights, Bfloat16* __restrict narrow,
                                         std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) narrow[i] = narrowed(weights[i]);
}

// The place of element `at` in a stream of state. A stream that the optimizer does not have may be null.
template <class Float>
Float* in_state(const UpdateStreams& streams, Float* stream, std::int64_t at) {
  return stream == nullptr ? nullptr : stream + (at - streams.state_begin);
}

Marks step(OptimizerKind kind, const StepNumbers& numbers, const float* gradient,
           const UpdateStreams& streams, std::int64_t at, std::int64_t n) {
  const float* weights = streams.weights + at;
  float* next = streams.next_weights + at;
  float* state1 = in_state(streams, streams.state1, at);
  float* state2 = in_state(streams, streams.state2, at);
  const float* before1 = streams.before1 != nullptr ? in_state(streams, streams.before1, at) : state1;
  const float* before2 = streams.before2 != nullptr ? in_state(streams, streams.before2, at) : state2;
#define PACELINE_STEP(Name, name) \
  case OptimizerKind::k##Name:    \
    return step_each<Name##Spec::Step>(numbers, gradient, weights, next, before1, state1, before2, state2, n);
#define PACELINE_BREAK(Name, name) \
  case OptimizerKind::k##Name:     \
    break;
  switch (kind) { PACELINE_EACH_OPTIMIZER(PACELINE_STEP, PACELINE_BREAK) }
#undef PACELINE_STEP
#undef PACELINE_BREAK
  PACELINE_CHECK(false, "an optimizer that steps whole tensors in parts of them");
  return 0;
}

PACELINE_VECTORIZED void note_differences(std::uint32_t* __restrict differences,
                                          const float* __restrict first, const float* __restrict other,
                                          std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) differences[i] |= difference(first[i], other[i]);
}

PACELINE_VECTORIZED void take_equal(float* __restrict mean, const std::uint32_t* __restrict differences,
                                    const float* __restrict first, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) mean[i] = differences[i] == 0 ? first[i] : mean[i];
}

void weighted_sum(std::span<const Weighted> members, float* sum, std::int64_t begin, std::int64_t n) {
  const Weighted& first = members[0];
  if (first.narrow != nullptr)
    narrow_product(sum, first.narrow + begin, first.weight, n);
  else
    collective::product(sum, first.values + begin, first.weight, n);
  for (const Weighted& member : members.subspan(1)) {
    if (member.narrow != nullptr)
      narrow_accumulate(sum, member.narrow + begin, member.weight, n);
    else
      collective::accumulate(sum, member.values + begin, member.weight, n);
  }
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
    if (streams.narrow != nullptr) round_to_narrow(streams.next_weights + at, streams.narrow + at, n);
  }
  return finite(marks);
}

double sum_of_squares(std::span<const Weighted> members, std::int64_t begin, std::int64_t end) {
  alignas(64) float sum[kBlock];
  weighted_sum(members, sum, begin, end - begin);
  return squares_in_lanes(sum, end - begin);
}

double sum_of_blocks(std::span<const double> squares) {
  double sum = 0;
  for (std::size_t begin = 0; begin < squares.size(); begin += kSquaresGroup) {
    const std::size_t n = std::min<std::size_t>(kSquaresGroup, squares.size() - begin);
    sum += sum_in_order(0, squares.data() + begin, static_cast<std::int64_t>(n));
  }
  return sum;
}

double squares_of(const float* values, std::int64_t n) { return squares_in_lanes(values, n); }
double squares_of(const Bfloat16* values, std::int64_t n) { return narrow_squares_in_lanes(values, n); }

void narrow_copy(const float* weights, Bfloat16* narrow, std::int64_t n) {
  round_to_narrow(weights, narrow, n);
}

double squares_of_tensor(const float* values, std::int64_t n) {
  double sum = 0;
  for (std::int64_t group = 0; group < n; group += kSquaresGroup * kSquaresBlock) {
    const std::int64_t end = std::min(n, group + kSquaresGroup * kSquaresBlock);
    double of_group = 0;
    for (std::int64_t begin = group; begin < end; begin += kSquaresBlock)
      of_group += squares_in_lanes(values + begin, std::min(kSquaresBlock, end - begin));
    sum += of_group;
  }
  return sum;
}

bool all_finite(const float* values, std::int64_t n) { return finite(marks_of(values, n)); }
bool all_finite(const Bfloat16* values, std::int64_t n) { return finite(narrow_marks_of(values, n)); }

bool all_finite(const Layout& layout, const float* gradient) {
  const auto moving = layout.moving();
  return std::all_of(moving.begin(), moving.end(),
                     [&](const Layout::Range& range) { return all_finite(layout, gradient, range); });
}

bool all_finite(const Layout& layout, const float* gradient, Layout::Range range) {
  const std::int64_t narrow_end = std::clamp(layout.narrow(), range.begin, range.end);
  return all_finite(narrow_part(gradient) + range.begin, narrow_end - range.begin) &&
         all_finite(gradient + narrow_end, range.end - narrow_end);
}

void update_direction(OptimizerKind kind, const StepNumbers& numbers, const UpdateStreams& streams,
                      std::int64_t begin, std::int64_t end) {
  PACELINE_CHECK(has_direction(kind), "an optimizer without a direction");
  const float* state1 = in_state(streams, streams.state1, begin);
  const float* state2 = in_state(streams, streams.state2, begin);
  float* direction = streams.direction + begin;
  with_spec(kind, [&](auto spec) {
    using Spec = decltype(spec);
    if constexpr (Spec::kTraits.direction_kept != nullptr)
      direction_of_each<typename Spec::Step>(numbers, state1, state2, direction, end - begin);
  });
}

void pull_part_way(const float* before, float pull, float* next, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) next[i] = part_way(before[i], pull, next[i]);
}

void fused_average(std::span<const Weighted> members, float* next, std::int64_t begin, std::int64_t end) {
  weighted_sum(members, next + begin, begin, end - begin);
}

void average_statistics(std::span<const Weighted> members, float* next, std::int64_t begin,
                        std::int64_t end) {
  alignas(64) float mean[kBlock];
  alignas(64) std::uint32_t differences[kBlock];
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    const float* const first = members[0].values + at;
    weighted_sum(members, mean, at, n);
    std::fill_n(differences, n, 0);
    for (const Weighted& member : members.subspan(1))
      note_differences(differences, first, member.values + at, n);
    take_equal(mean, differences, first, n);
    std::copy_n(mean, n, next + at);
  }
}

}  // namespace paceline::ps

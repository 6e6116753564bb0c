// The kernels' bodies, which clang compiles for a card (kernels.cu) and the compiler for the host
// (host_kernels.cc). A thread knows nothing but its place in the grid. Threads share no memory but the marks,
// so one after the other they compute the same bytes as all at once.
#pragma once

#include <cstdint>

#include "paceline/cuda/kernel_arguments.h"
#include "paceline/ps/step_math.h"

#define PACELINE_KERNEL PACELINE_STEP_MATH
#ifdef __CUDA__
#define PACELINE_UNROLL _Pragma("unroll")
#define PACELINE_UNROLL_8 _Pragma("unroll 8")
#else
#define PACELINE_UNROLL
#define PACELINE_UNROLL_8
#endif

namespace paceline::cuda {

// A thread's place in the grid.
struct Place {
  unsigned block, blocks, thread, threads;
  PACELINE_KERNEL std::int64_t first() const { return std::int64_t{block} * threads + thread; }
  PACELINE_KERNEL std::int64_t all() const { return std::int64_t{blocks} * threads; }
};

// Four numbers: one load or store of 16 bytes.
using Four = float __attribute__((vector_size(16), may_alias));
inline constexpr std::int32_t kFour = 4;

PACELINE_KERNEL bool aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % sizeof(Four) == 0;
}

// `Number` is float or Four.
template <class Number>
PACELINE_KERNEL Number load(const float* at) {
  return *reinterpret_cast<const Number*>(at);
}
template <class Number>
PACELINE_KERNEL void store(float* at, Number number) {
  *reinterpret_cast<Number*>(at) = number;
}

// The members of a sum. Of one or two of them everything is in registers; kCount is 0 for any number.
template <int kCount, bool kShares>
class Members {
 public:
  PACELINE_KERNEL Members(const MemberArgument* members, std::int32_t count)
      : members_(members), count_(count) {
    for (int i = 0; i < kCount; ++i) kept_[i] = members[i];
  }
  PACELINE_KERNEL bool aligned_at(std::int64_t begin) const {
    bool result = true;
    for (int i = 0; i < count(); ++i) result = result && aligned(member(i).gradient + begin);
    return result;
  }
  // Σ weight · gradient[at], or with shares in place of weights.
  template <class Number>
  PACELINE_KERNEL Number sum(std::int64_t at) const {
    Number result = factor(0) * load<Number>(member(0).gradient + at);
    for (int i = 1; i < count(); ++i) result = result + factor(i) * load<Number>(member(i).gradient + at);
    return result;
  }

 private:
  PACELINE_KERNEL int count() const { return kCount != 0 ? kCount : count_; }
  PACELINE_KERNEL const MemberArgument& member(int i) const { return kCount != 0 ? kept_[i] : members_[i]; }
  PACELINE_KERNEL float factor(int i) const { return kShares ? member(i).share : member(i).weight; }

  const MemberArgument* members_;
  std::int32_t count_;
  MemberArgument kept_[kCount == 0 ? 1 : kCount];
};

// Each number of a vector, or a number that is alone.
PACELINE_KERNEL int width(float) { return 1; }
PACELINE_KERNEL int width(Four) { return kFour; }
PACELINE_KERNEL float get(float number, int) { return number; }
PACELINE_KERNEL float get(Four number, int i) { return number[i]; }
PACELINE_KERNEL void set(float& number, int, float value) { number = value; }
PACELINE_KERNEL void set(Four& number, int i, float value) { number[i] = value; }

// Calls each.operator()<Four>(at) and each.operator()<float>(at) so that the threads of a block share out
// floats [begin, begin + size), four at a time if they are aligned.
template <class Each>
PACELINE_KERNEL void share_out(const Place& place, std::int64_t begin, std::int32_t size, bool fours,
                               const Each& each) {
  const auto thread = static_cast<std::int32_t>(place.thread);
  const auto threads = static_cast<std::int32_t>(place.threads);
  const std::int32_t whole = fours ? size / kFour * kFour : 0;
  for (std::int32_t i = thread * kFour; i < whole; i += threads * kFour) each.template at<Four>(begin + i);
  for (std::int32_t i = whole + thread; i < size; i += threads) each.template at<float>(begin + i);
}

PACELINE_KERNEL void note(ps::Marks marks, std::uint32_t* all) {
  if (!ps::finite(marks)) __atomic_fetch_or(all, kNotFinite, __ATOMIC_RELAXED);
}

template <class Step, int kMembers>
struct ParameterStep {
  const UpdateArguments& a;
  const Step& step;
  const Members<kMembers, false>& members;
  float factor;
  ps::Marks& marks;

  PACELINE_KERNEL const float* before1() const {
    return a.state1_before != nullptr ? a.state1_before : a.state1;
  }
  PACELINE_KERNEL const float* before2() const {
    return a.state2_before != nullptr ? a.state2_before : a.state2;
  }

  PACELINE_KERNEL bool all_aligned(std::int64_t begin) const {
    bool result = aligned(a.weights + begin) && aligned(a.next + begin) && aligned(a.state1 + begin) &&
                  aligned(before1() + begin) && members.aligned_at(begin);
    if (Step::kStates == 2) result = result && aligned(a.state2 + begin) && aligned(before2() + begin);
    if (a.direction != nullptr) result = result && aligned(a.direction + begin);
    return result;
  }

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    const Number weights = load<Number>(a.weights + i);
    const Number state1 = load<Number>(before1() + i);
    Number state2{};
    if constexpr (Step::kStates == 2) state2 = load<Number>(before2() + i);
    Number gradient = members.template sum<Number>(i);
    gradient = factor * gradient;
    Number next{}, next1{}, next2{}, direction{};
    PACELINE_UNROLL
    for (int j = 0; j < width(weights); ++j) {
      const ps::Stepped to = step(get(gradient, j), get(weights, j), get(state1, j), get(state2, j));
      set(next, j, to.weight);
      set(next1, j, to.state1);
      set(next2, j, to.state2);
      set(direction, j, step.direction(to.state1, to.state2));
      marks |= step.marks_of(to);
    }
    store(a.next + i, next);
    store(a.state1 + i, next1);
    if constexpr (Step::kStates == 2) store(a.state2 + i, next2);
    if (a.direction != nullptr) store(a.direction + i, direction);
  }
};

struct StatisticStep {
  const UpdateArguments& a;
  const Members<0, true>& members;
  ps::Marks& marks;

  PACELINE_KERNEL bool all_aligned(std::int64_t begin) const {
    return aligned(a.weights + begin) && aligned(a.next + begin) && members.aligned_at(begin);
  }

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    Number mean = members.template sum<Number>(i);
    if (a.pull != 1) {
      const Number weights = load<Number>(a.weights + i);
      for (int j = 0; j < width(mean); ++j) set(mean, j, ps::part_way(get(weights, j), a.pull, get(mean, j)));
    }
    for (int j = 0; j < width(mean); ++j) marks |= ps::mark_of(get(mean, j));
    store(a.next + i, mean);
  }
};

template <class Step, int kMembers>
PACELINE_KERNEL void step_pieces(const UpdateArguments& a, const Place& place) {
  const Members<kMembers, false> members(a.members, a.member_count);
  const float word = a.gradient_factor != nullptr ? *a.gradient_factor : 1.0f;
  ps::Marks marks = 0;
  for (auto p = static_cast<std::int32_t>(place.block); p < a.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.pieces[p];
    if (piece.kind == kStatisticPiece) {
      const Members<0, true> shares(a.members, a.member_count);
      const StatisticStep each{a, shares, marks};
      share_out(place, piece.begin, piece.size, each.all_aligned(piece.begin), each);
    } else {
      const ps::StepNumbers& numbers = a.numbers[piece.optimizer];
      const Step step(numbers);
      const ParameterStep<Step, kMembers> each{a, step, members, numbers.gradient * word, marks};
      share_out(place, piece.begin, piece.size, each.all_aligned(piece.begin), each);
    }
  }
  note(marks, a.marks);
}

template <class Step>
PACELINE_KERNEL void step(const UpdateArguments& a, const Place& place) {
  if (a.member_count == 1)
    step_pieces<Step, 1>(a, place);
  else if (a.member_count == 2)
    step_pieces<Step, 2>(a, place);
  else
    step_pieces<Step, 0>(a, place);
}

template <class Step>
struct DirectionOf {
  const UpdateArguments& a;
  const Step& step;

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    a.direction[i] = step.direction(a.state1[i], Step::kStates == 2 ? a.state2[i] : 0.0f);
  }
};

template <class Step>
PACELINE_KERNEL void direction(const UpdateArguments& a, const Place& place) {
  for (auto p = static_cast<std::int32_t>(place.block); p < a.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.pieces[p];
    if (piece.kind != kParameterPiece) continue;
    const Step step(a.numbers[piece.optimizer]);
    share_out(place, piece.begin, piece.size, false, DirectionOf<Step>{a, step});
  }
}

template <int kMembers>
PACELINE_KERNEL void lanes_of(const SquaresArguments& a, const Place& place) {
  const Members<kMembers, false> members(a.members, a.member_count);
  const std::int64_t lanes = a.block_count * ps::kSquaresLanes;
  for (std::int64_t t = place.first(); t < lanes; t += place.all()) {
    const SquaresBlock block = a.blocks[t / ps::kSquaresLanes];
    const std::int64_t begin = block.begin + t % ps::kSquaresLanes;
    const auto rounds = static_cast<std::int32_t>(block.size / ps::kSquaresLanes);
    double sum = 0;
    PACELINE_UNROLL_8
    for (std::int32_t i = 0; i < rounds; ++i)
      sum = ps::square_added(sum, members.template sum<float>(begin + i * ps::kSquaresLanes));
    a.lanes[t] = sum;
  }
}

PACELINE_KERNEL void squares_lanes(const SquaresArguments& a, const Place& place) {
  if (a.member_count == 1)
    lanes_of<1>(a, place);
  else if (a.member_count == 2)
    lanes_of<2>(a, place);
  else
    lanes_of<0>(a, place);
}

PACELINE_KERNEL void squares_blocks(const SquaresArguments& a, const Place& place) {
  const Members<0, false> members(a.members, a.member_count);
  for (std::int64_t t = place.first(); t < a.block_count; t += place.all()) {
    const SquaresBlock block = a.blocks[t];
    double sum = 0;
    for (std::int64_t i = block.size / ps::kSquaresLanes * ps::kSquaresLanes; i < block.size; ++i)
      sum = ps::square_added(sum, members.template sum<float>(block.begin + i));
    a.squares[t] = ps::sum_in_order(sum, a.lanes + t * ps::kSquaresLanes, ps::kSquaresLanes);
  }
}

PACELINE_KERNEL void squares_groups(const SquaresArguments& a, const Place& place) {
  for (std::int64_t t = place.first(); t < a.group_count; t += place.all()) {
    const std::int64_t begin = t * ps::kSquaresGroup;
    const std::int64_t left = a.block_count - begin;
    a.groups[t] = ps::sum_in_order(0, a.squares + begin, left < ps::kSquaresGroup ? left : ps::kSquaresGroup);
  }
}

PACELINE_KERNEL void clip_factor(const ClipArguments& a, const Place& place) {
  if (place.first() != 0) return;
  double total = 0;
  if (a.groups != nullptr) {
    total = ps::sum_in_order(0, a.groups, a.group_count);
    if (a.total != nullptr) *a.total = total;
  } else {
    total = *a.total;
  }
  if (a.factor != nullptr) *a.factor = ps::limiting_factor(__builtin_sqrt(total), a.clip);
}

struct Look {
  const float* values;
  ps::Marks& marks;

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    const auto number = load<Number>(values + i);
    for (int j = 0; j < width(number); ++j) marks |= ps::mark_of(get(number, j));
  }
};

PACELINE_KERNEL void look_for_not_finite(const FiniteArguments& a, const Place& place) {
  ps::Marks marks = 0;
  for (auto p = static_cast<std::int32_t>(place.block); p < a.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.pieces[p];
    share_out(place, piece.begin, piece.size, aligned(a.values + piece.begin), Look{a.values, marks});
  }
  note(marks, a.marks);
}

// KERNEL(name, its arguments, its body).
#define PACELINE_EACH_KERNEL(KERNEL)                                                \
  KERNEL(paceline_step_sgd, UpdateArguments, step<ps::SgdStep>)                     \
  KERNEL(paceline_step_nesterov, UpdateArguments, step<ps::NesterovStep>)           \
  KERNEL(paceline_step_rmsprop, UpdateArguments, step<ps::RmspropStep>)             \
  KERNEL(paceline_step_lion, UpdateArguments, step<ps::LionStep>)                   \
  KERNEL(paceline_step_adam, UpdateArguments, step<ps::AdamStep>)                   \
  KERNEL(paceline_direction_sgd, UpdateArguments, direction<ps::SgdStep>)           \
  KERNEL(paceline_direction_nesterov, UpdateArguments, direction<ps::NesterovStep>) \
  KERNEL(paceline_direction_rmsprop, UpdateArguments, direction<ps::RmspropStep>)   \
  KERNEL(paceline_direction_lion, UpdateArguments, direction<ps::LionStep>)         \
  KERNEL(paceline_direction_adam, UpdateArguments, direction<ps::AdamStep>)         \
  KERNEL(paceline_squares_lanes, SquaresArguments, squares_lanes)                   \
  KERNEL(paceline_squares_blocks, SquaresArguments, squares_blocks)                 \
  KERNEL(paceline_squares_groups, SquaresArguments, squares_groups)                 \
  KERNEL(paceline_clip_factor, ClipArguments, clip_factor)                          \
  KERNEL(paceline_finite, FiniteArguments, look_for_not_finite)

}  // namespace paceline::cuda

// The kernels' bodies, which clang compiles for a card (kernels.cu) and the compiler for the host
// (host_kernels.cc). A thread knows nothing but its place in the grid. Threads share no memory but the marks,
// so one after the other they compute the same bytes as all at once.
#pragma once

#include <cstdint>

#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/cuda/kernel_numbers.h"
#include "paceline/parameters/ps/step_math.h"

namespace paceline::cuda {

// A thread's place in the grid.
struct Place {
  unsigned block, blocks, thread, threads;
  PACELINE_KERNEL std::int64_t first() const { return std::int64_t{block} * threads + thread; }
  PACELINE_KERNEL std::int64_t all() const { return std::int64_t{blocks} * threads; }
};

template <bool kNarrow>
PACELINE_KERNEL auto gradient_of(const MemberArgument& member) {
  if constexpr (kNarrow)
    return member.narrow;
  else
    return member.gradient;
}

// The members of a sum. One or two of them are kept in registers; kCount is 0 for any number.
template <int kCount, bool kShares>
class Members {
 public:
  PACELINE_KERNEL explicit Members(const UpdateArguments& a) : Members(a.members, a.member_count) {}
  PACELINE_KERNEL Members(const MemberArgument* members, std::int32_t count)
      : members_(members), count_(count) {
    for (int i = 0; i < kCount; ++i) kept_[i] = members[i];
  }
  // Σ weight · gradient[at], or with shares in place of weights.
  template <class Number, bool kNarrow = false>
  PACELINE_KERNEL Number sum(std::int64_t at) const {
    Number result = factor(0) * load<Number>(gradient_of<kNarrow>(member(0)) + at);
    PACELINE_UNROLL_4
    for (int i = 1; i < (kCount != 0 ? kCount : count_); ++i)
      result = result + factor(i) * load<Number>(gradient_of<kNarrow>(member(i)) + at);
    return result;
  }
  // ps::average_statistics().
  template <class Number>
  PACELINE_KERNEL Number mean(std::int64_t at) const {
    Number result = sum<Number>(at);
    const auto first = load<Number>(member(0).gradient + at);
    std::uint32_t differences[kFour] = {};
    for (int i = 1; i < count_; ++i) {
      const auto other = load<Number>(member(i).gradient + at);
      PACELINE_UNROLL
      for (int j = 0; j < width(first); ++j) differences[j] |= ps::difference(get(first, j), get(other, j));
    }
    PACELINE_UNROLL
    for (int j = 0; j < width(first); ++j) {
      if (differences[j] == 0) set(result, j, get(first, j));
    }
    return result;
  }

 private:
  PACELINE_KERNEL const MemberArgument& member(int i) const { return kCount != 0 ? kept_[i] : members_[i]; }
  PACELINE_KERNEL float factor(int i) const { return kShares ? member(i).share : member(i).weight; }

  const MemberArgument* members_;
  std::int32_t count_;
  MemberArgument kept_[kCount == 0 ? 1 : kCount];
};

template <bool kNarrow>
PACELINE_KERNEL bool gradients_aligned(const UpdateArguments& a, std::int64_t begin) {
  bool result = !kNarrow || aligned(a.narrow + begin);
  for (int i = 0; i < a.member_count; ++i)
    result = result && aligned(gradient_of<kNarrow>(a.members[i]) + begin);
  return result;
}

// The threads of a block share out floats [begin, begin + size): they call each.at<Four>(i) for four at a
// time if these are aligned, and each.at<float>(i) for the rest. share_fours() returns how many floats it has
// done.
template <class Each>
PACELINE_KERNEL std::int32_t share_fours(const Place& place, const Piece& piece, const Each& each) {
  const auto threads = static_cast<std::int32_t>(place.threads);
  const std::int32_t whole = piece.size / kFour * kFour;
  for (std::int32_t i = static_cast<std::int32_t>(place.thread) * kFour; i < whole; i += threads * kFour)
    each.template at<Four>(piece.begin + i);
  return whole;
}
template <class Each>
PACELINE_KERNEL void share_rest(const Place& place, const Piece& piece, std::int32_t done, const Each& each) {
  const auto threads = static_cast<std::int32_t>(place.threads);
  for (std::int32_t i = done + static_cast<std::int32_t>(place.thread); i < piece.size; i += threads)
    each.template at<float>(piece.begin + i);
}
template <class Each>
PACELINE_KERNEL void share_out(const Place& place, const Piece& piece, bool fours, const Each& each) {
  share_rest(place, piece, fours ? share_fours(place, piece, each) : 0, each);
}

PACELINE_KERNEL void note(ps::Marks marks, std::uint32_t* all) {
  if (!ps::finite(marks)) __atomic_fetch_or(all, kNotFinite, __ATOMIC_RELAXED);
}

template <class Step>
PACELINE_KERNEL bool streams_aligned(const UpdateArguments& a, std::int64_t begin) {
  bool result = aligned(a.weights + begin) && aligned(a.next + begin) && aligned(a.state1 + begin);
  if (Step::kStates == 2) result = result && aligned(a.state2 + begin);
  if (a.state1_before != nullptr) result = result && aligned(a.state1_before + begin);
  if (a.state2_before != nullptr) result = result && aligned(a.state2_before + begin);
  if (a.direction != nullptr) result = result && aligned(a.direction + begin);
  return result;
}

// 0 if the optimizer has no direction, and then nobody wants it.
template <class Step>
PACELINE_KERNEL float direction_of(const Step& step, float state1, float state2) {
  if constexpr (ps::kHasDirection<Step>)
    return step.direction(state1, state2);
  else
    return 0.0f;
}

template <class Step, int kMembers, bool kNarrow>
struct ParameterStep {
  const UpdateArguments& a;
  const Step& step;
  float factor;
  ps::Marks& marks;
  Members<kMembers, false> members{a};

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    const auto weights = load<Number>(a.weights + i);
    const auto state1 = load<Number>((a.state1_before != nullptr ? a.state1_before : a.state1) + i);
    Number state2{};
    if constexpr (Step::kStates == 2)
      state2 = load<Number>((a.state2_before != nullptr ? a.state2_before : a.state2) + i);
    const Number gradient = factor * members.template sum<Number, kNarrow>(i);
    Number next{}, next1{}, next2{}, direction{};
    PACELINE_UNROLL
    for (int j = 0; j < width(weights); ++j) {
      const ps::Stepped to = step(get(gradient, j), get(weights, j), get(state1, j), get(state2, j));
      set(next, j, to.weight);
      set(next1, j, to.state1);
      set(next2, j, to.state2);
      set(direction, j, direction_of(step, to.state1, to.state2));
      marks |= step.marks_of(to);
    }
    store(a.next + i, next);
    if constexpr (kNarrow) store(a.narrow + i, next);
    store(a.state1 + i, next1);
    if constexpr (Step::kStates == 2) store(a.state2 + i, next2);
    if (a.direction != nullptr) store(a.direction + i, direction);
  }
};

template <class Step, bool kNarrow>
PACELINE_KERNEL void step_parameters(const UpdateArguments& a, const Piece& piece, float factor,
                                     const Place& place, ps::Marks& marks) {
  const Step step(a.numbers[piece.optimizer]);
  std::int32_t done = 0;
  if (streams_aligned<Step>(a, piece.begin) && gradients_aligned<kNarrow>(a, piece.begin)) {
    if (a.member_count == 1)
      done = share_fours(place, piece, ParameterStep<Step, 1, kNarrow>{a, step, factor, marks});
    else if (a.member_count == 2)
      done = share_fours(place, piece, ParameterStep<Step, 2, kNarrow>{a, step, factor, marks});
    else
      done = share_fours(place, piece, ParameterStep<Step, 0, kNarrow>{a, step, factor, marks});
  }
  share_rest(place, piece, done, ParameterStep<Step, 0, kNarrow>{a, step, factor, marks});
}

struct StatisticStep {
  const UpdateArguments& a;
  ps::Marks& marks;
  Members<0, true> members{a};

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    auto mean = members.template mean<Number>(i);
    if (a.pull != 1) {
      const auto weights = load<Number>(a.weights + i);
      PACELINE_UNROLL
      for (int j = 0; j < width(mean); ++j) set(mean, j, ps::part_way(get(weights, j), a.pull, get(mean, j)));
    }
    PACELINE_UNROLL
    for (int j = 0; j < width(mean); ++j) marks |= ps::mark_of(get(mean, j));
    store(a.next + i, mean);
  }
};

template <class Step>
PACELINE_KERNEL void step(const UpdateArguments& a, const Place& place) {
  const float word = a.gradient_factor != nullptr ? *a.gradient_factor : 1.0f;
  ps::Marks marks = 0;
  for (auto p = static_cast<std::int32_t>(place.block); p < a.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.pieces[p];
    if (piece.kind == kStatisticPiece) {
      share_out(place, piece, false, StatisticStep{a, marks});
      continue;
    }
    const float factor = a.numbers[piece.optimizer].gradient * word;
    if (piece.kind == kNarrowPiece)
      step_parameters<Step, true>(a, piece, factor, place, marks);
    else
      step_parameters<Step, false>(a, piece, factor, place, marks);
  }
  note(marks, a.marks);
}

template <class Step>
struct DirectionOf {
  const UpdateArguments& a;
  const Step& step;

  template <class Number>
  PACELINE_KERNEL void at(std::int64_t i) const {
    a.direction[i] = direction_of(step, a.state1[i], Step::kStates == 2 ? a.state2[i] : 0.0f);
  }
};

template <class Step>
PACELINE_KERNEL void direction(const UpdateArguments& a, const Place& place) {
  for (auto p = static_cast<std::int32_t>(place.block); p < a.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.pieces[p];
    if (piece.kind == kStatisticPiece) continue;
    const Step step(a.numbers[piece.optimizer]);
    share_out(place, piece, false, DirectionOf<Step>{a, step});
  }
}

template <bool kNarrow, int kMembers>
PACELINE_KERNEL double lane_of(const Members<kMembers, false>& members, std::int64_t begin,
                               std::int32_t rounds) {
  double sum = 0;
  PACELINE_UNROLL_8
  for (std::int32_t i = 0; i < rounds; ++i)
    sum = ps::square_added(sum, members.template sum<float, kNarrow>(begin + i * ps::kSquaresLanes));
  return sum;
}

template <int kMembers>
PACELINE_KERNEL void lanes_of(const SquaresArguments& a, const Place& place) {
  const Members<kMembers, false> members(a.members, a.member_count);
  const std::int64_t lanes = a.block_count * ps::kSquaresLanes;
  for (std::int64_t t = place.first(); t < lanes; t += place.all()) {
    const SquaresBlock block = a.blocks[t / ps::kSquaresLanes];
    const std::int64_t begin = block.begin + t % ps::kSquaresLanes;
    const auto rounds = static_cast<std::int32_t>(block.size / ps::kSquaresLanes);
    a.lanes[t] = block.begin < a.narrow_end ? lane_of<true>(members, begin, rounds)
                                            : lane_of<false>(members, begin, rounds);
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
    for (std::int64_t i = block.size / ps::kSquaresLanes * ps::kSquaresLanes; i < block.size; ++i) {
      const std::int64_t at = block.begin + i;
      sum = ps::square_added(sum, block.begin < a.narrow_end ? members.template sum<float, true>(at)
                                                             : members.template sum<float>(at));
    }
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
    share_out(place, piece, aligned(a.values + piece.begin), Look{a.values, marks});
  }
  note(marks, a.marks);
}

// ---- LARS, LAMB and Adafactor ----

PACELINE_KERNEL const float* before1(const UpdateArguments& a) {
  return a.state1_before != nullptr ? a.state1_before : a.state1;
}
PACELINE_KERNEL const float* before2(const UpdateArguments& a) {
  return a.state2_before != nullptr ? a.state2_before : a.state2;
}

// The threads of a block share out the floats of each piece of a parameter, without padding: make(tensor, its
// place in the table) is called for each piece and gives the function that is called for each float.
template <class Make>
PACELINE_KERNEL void each_float(const TensorArguments& a, const Place& place, const Make& make) {
  for (auto p = static_cast<std::int32_t>(place.block); p < a.update.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.update.pieces[p];
    if (piece.kind != kParameterPiece) continue;
    const TensorArgument& tensor = a.tensors[piece.optimizer];
    const auto work = make(tensor, piece.optimizer);
    const std::int64_t padding = tensor.begin + tensor.size;
    const std::int64_t end = piece.begin + piece.size < padding ? piece.begin + piece.size : padding;
    for (std::int64_t i = piece.begin + place.thread; i < end; i += place.threads) work(i);
  }
}

// The averaged gradient in place of the next weights. Statistics are ready after this, and so is padding.
PACELINE_KERNEL void average(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  const Members<0, false> members(a);
  const float word = a.gradient_factor != nullptr ? *a.gradient_factor : 1.0f;
  ps::Marks marks = 0;
  for (auto p = static_cast<std::int32_t>(place.block); p < a.piece_count;
       p += static_cast<std::int32_t>(place.blocks)) {
    const Piece piece = a.pieces[p];
    if (piece.kind == kStatisticPiece) {
      share_out(place, piece, false, StatisticStep{a, marks});
      continue;
    }
    const TensorArgument& tensor = all.tensors[piece.optimizer];
    const float factor = a.numbers[tensor.optimizer].gradient * word;
    for (std::int64_t i = piece.begin + place.thread; i < piece.begin + piece.size; i += place.threads)
      a.next[i] = i < tensor.begin + tensor.size ? factor * members.template sum<float>(i) : a.weights[i];
  }
  note(marks, a.marks);
}

// The norm of a tensor, from the squares of its blocks.
PACELINE_KERNEL double norm_of(const double* squares, const TensorArgument& tensor) {
  const std::int64_t end = tensor.first_block + (tensor.size + ps::kSquaresBlock - 1) / ps::kSquaresBlock;
  double sum = 0;
  for (std::int64_t block = tensor.first_block; block < end; block += ps::kSquaresGroup) {
    const std::int64_t left = end - block;
    sum += ps::sum_in_order(0, squares + block, left < ps::kSquaresGroup ? left : ps::kSquaresGroup);
  }
  return __builtin_sqrt(sum);
}

// A step needs one number of a tensor's norms: the gain of LARS, the rate of LAMB and Adafactor.
template <ps::OptimizerKind kKind>
PACELINE_KERNEL void tensor_factors(const TensorArguments& a, const Place& place) {
  for (std::int64_t t = place.first(); t < a.tensor_count; t += place.all()) {
    const TensorArgument& tensor = a.tensors[t];
    const ps::StepNumbers& numbers = a.update.numbers[tensor.optimizer];
    const double weights = norm_of(a.weight_squares, tensor), step = norm_of(a.step_squares, tensor);
    if constexpr (kKind == ps::OptimizerKind::kLars)
      a.factors[t] = ps::lars_gain(numbers, tensor.adapted != 0, weights, step);
    else if constexpr (kKind == ps::OptimizerKind::kLamb)
      a.factors[t] = ps::lamb_rate(numbers, tensor.adapted != 0, weights, step);
    else
      a.factors[t] = ps::adafactor_rate(numbers, tensor.size, weights, step);
  }
}

PACELINE_KERNEL void lars_step(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  ps::Marks marks = 0;
  each_float(all, place, [&](const TensorArgument& tensor, std::int32_t t) {
    const ps::SgdStep step(a.numbers[tensor.optimizer], all.factors[t]);
    return [&a, &marks, step](std::int64_t i) {
      const ps::Stepped to = step(a.next[i], a.weights[i], before1(a)[i], 0);
      a.next[i] = to.weight;
      a.state1[i] = to.state1;
      if (a.direction != nullptr) a.direction[i] = step.direction(to.state1, 0);
      marks |= ps::mark_of(to.weight) | ps::mark_of(to.state1);
    };
  });
  note(marks, a.marks);
}

PACELINE_KERNEL void lamb_moments(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  ps::Marks marks = 0;
  each_float(all, place, [&](const TensorArgument& tensor, std::int32_t) {
    const ps::LambStep step(a.numbers[tensor.optimizer]);
    return [&a, &marks, step](std::int64_t i) {
      const ps::Stepped to = step(a.next[i], a.weights[i], before1(a)[i], before2(a)[i]);
      a.next[i] = to.weight;
      a.state1[i] = to.state1;
      a.state2[i] = to.state2;
      marks |= ps::mark_of(to.state1) | ps::mark_of(to.state2);
    };
  });
  note(marks, a.marks);
}

// LAMB and Adafactor: the new weights in place of the steps.
template <ps::OptimizerKind kKind>
PACELINE_KERNEL void go_along(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  ps::Marks marks = 0;
  each_float(all, place, [&](const TensorArgument& tensor, std::int32_t t) {
    const ps::StepNumbers& numbers = a.numbers[tensor.optimizer];
    const float kept = kKind == ps::OptimizerKind::kAdafactor ? 1.0f - numbers.shrink : 1.0f;
    return [&a, &marks, kept, rate = all.factors[t]](std::int64_t i) {
      a.next[i] = ps::go(kept, a.weights[i], rate, a.next[i]);
      marks |= ps::mark_of(a.next[i]) | ps::mark_of(a.state1[i]);
    };
  });
  note(marks, a.marks);
}

// The tensor that item `item` of all tensors is of, if `before` says how many items the tensors before each
// have.
PACELINE_KERNEL const TensorArgument& tensor_of(const TensorArguments& a, std::int64_t item,
                                                std::int64_t TensorArgument::*before) {
  std::int32_t low = 0, high = a.tensor_count;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    if (a.tensors[middle].*before <= item)
      low = middle;
    else
      high = middle;
  }
  return a.tensors[low];
}

PACELINE_KERNEL std::int64_t chunks_of(const TensorArgument& tensor) {
  return (tensor.height + ps::kChunkRows - 1) / ps::kChunkRows;
}

// The mean of squares in a row of a matrix, by one thread.
PACELINE_KERNEL void adafactor_rows(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  ps::Marks marks = 0;
  for (std::int64_t item = place.first(); item < all.row_count; item += place.all()) {
    const TensorArgument& tensor = tensor_of(all, item, &TensorArgument::rows_before);
    const std::int64_t row = item - tensor.rows_before;
    const float* values = a.next + tensor.begin + row * tensor.width;
    double lanes[ps::kSquaresLanes] = {};
    std::int64_t i = 0;
    for (; i + ps::kSquaresLanes <= tensor.width; i += ps::kSquaresLanes) {
      PACELINE_UNROLL
      for (int lane = 0; lane < ps::kSquaresLanes; ++lane)
        lanes[lane] = ps::square_added(lanes[lane], values[i + lane]);
    }
    double sum = 0;
    for (; i < tensor.width; ++i) sum = ps::square_added(sum, values[i]);
    PACELINE_UNROLL
    for (int lane = 0; lane < ps::kSquaresLanes; ++lane) sum += lanes[lane];
    const auto mean = static_cast<float>(sum / static_cast<double>(tensor.width));
    const std::int64_t at = tensor.begin + row;
    a.state1[at] = ps::kept_mean(a.numbers[tensor.optimizer].beta2, before1(a)[at], mean);
    marks |= ps::mark_of(a.state1[at]);
  }
  note(marks, a.marks);
}

// A chunk of a matrix's rows has each column's sum of squares, and behind these the sum of the rows'
// means.
PACELINE_KERNEL void adafactor_sums(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  for (std::int64_t item = place.first(); item < all.sum_count; item += place.all()) {
    const TensorArgument& tensor = tensor_of(all, item, &TensorArgument::sums_before);
    const std::int64_t chunk = (item - tensor.sums_before) / (tensor.width + 1);
    const std::int64_t column = (item - tensor.sums_before) % (tensor.width + 1);
    const std::int64_t matrix = chunk / chunks_of(tensor);
    const std::int64_t begin = chunk % chunks_of(tensor) * ps::kChunkRows;
    const std::int64_t left = tensor.height - begin;
    const auto rows = static_cast<std::int32_t>(left < ps::kChunkRows ? left : ps::kChunkRows);
    const std::int64_t first_row = matrix * tensor.height + begin;
    if (column < tensor.width) {
      const float* value = a.next + tensor.begin + first_row * tensor.width + column;
      float sum = 0;
      PACELINE_UNROLL_8
      for (std::int32_t i = 0; i < rows; ++i) {
        const float one = value[i * tensor.width];
        sum = sum + one * one;
      }
      all.sums[item] = static_cast<double>(sum);
    } else {
      double sum = 0;
      for (std::int32_t i = 0; i < rows; ++i)
        sum += static_cast<double>(a.state1[tensor.begin + first_row + i]);
      all.sums[item] = sum;
    }
  }
}

// The means of squares in columns, and the mean of each matrix's rows.
PACELINE_KERNEL void adafactor_columns(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  ps::Marks marks = 0;
  for (std::int64_t item = place.first(); item < all.column_count; item += place.all()) {
    const TensorArgument& tensor = tensor_of(all, item, &TensorArgument::columns_before);
    const std::int64_t matrix = (item - tensor.columns_before) / (tensor.width + 1);
    const std::int64_t column = (item - tensor.columns_before) % (tensor.width + 1);
    const std::int64_t chunks = chunks_of(tensor);
    const double* sums = all.sums + tensor.sums_before + matrix * chunks * (tensor.width + 1) + column;
    if (column < tensor.width) {
      float sum = 0;
      for (std::int64_t i = 0; i < chunks; ++i) sum += static_cast<float>(sums[i * (tensor.width + 1)]);
      const float beta2 = a.numbers[tensor.optimizer].beta2;
      const float share = (1.0f - beta2) / static_cast<float>(tensor.height);
      const std::int64_t at = tensor.begin + tensor.matrices * tensor.height + matrix * tensor.width + column;
      a.state1[at] = ps::kept_column(beta2, before1(a)[at], share, sum);
      marks |= ps::mark_of(a.state1[at]);
    } else {
      double sum = 0;
      for (std::int64_t i = 0; i < chunks; ++i) sum += sums[i * (tensor.width + 1)];
      all.means[item] = ps::mean_of_rows(sum, tensor.height);
    }
  }
  note(marks, a.marks);
}

PACELINE_KERNEL void adafactor_row_factors(const TensorArguments& all, const Place& place) {
  for (std::int64_t item = place.first(); item < all.row_count; item += place.all()) {
    const TensorArgument& tensor = tensor_of(all, item, &TensorArgument::rows_before);
    const std::int64_t row = item - tensor.rows_before;
    const std::int64_t column_items = row / tensor.height * (tensor.width + 1);
    const double mean = all.means[tensor.columns_before + column_items + tensor.width];
    all.row_factors[item] = ps::row_factor(all.update.state1[tensor.begin + row], mean);
  }
}

// The step along which a weight goes, in place of its gradient.
PACELINE_KERNEL void adafactor_divide(const TensorArguments& all, const Place& place) {
  const UpdateArguments& a = all.update;
  each_float(all, place, [&](const TensorArgument& tensor, std::int32_t) {
    const float beta2 = a.numbers[tensor.optimizer].beta2;
    return [&a, &all, &tensor, beta2](std::int64_t i) {
      float square;
      if (tensor.matrices == 0) {
        square = ps::kept_square(beta2, before1(a)[i], a.next[i]);
        a.state1[i] = square;
      } else {
        const std::int64_t row = (i - tensor.begin) / tensor.width;
        const std::int64_t column = (i - tensor.begin) % tensor.width;
        const float* columns = a.state1 + tensor.begin + tensor.matrices * tensor.height;
        square =
            all.row_factors[tensor.rows_before + row] * columns[row / tensor.height * tensor.width + column];
      }
      a.next[i] = ps::divided_by_root(a.next[i], square);
    };
  });
}

// The two kernels of an optimizer that steps each number by itself.
#define PACELINE_STEP_KERNELS(Name, name)                                   \
  KERNEL(paceline_step_##name, UpdateArguments, step<ps::Name##Spec::Step>) \
  KERNEL(paceline_direction_##name, UpdateArguments, direction<ps::Name##Spec::Step>)
#define PACELINE_NO_KERNELS(Name, name)

// KERNEL(name, its arguments, its body), a macro of this name.
#define PACELINE_EACH_KERNEL                                                                         \
  PACELINE_EACH_OPTIMIZER(PACELINE_STEP_KERNELS, PACELINE_NO_KERNELS)                                \
  KERNEL(paceline_squares_lanes, SquaresArguments, squares_lanes)                                    \
  KERNEL(paceline_squares_blocks, SquaresArguments, squares_blocks)                                  \
  KERNEL(paceline_squares_groups, SquaresArguments, squares_groups)                                  \
  KERNEL(paceline_clip_factor, ClipArguments, clip_factor)                                           \
  KERNEL(paceline_finite, FiniteArguments, look_for_not_finite)                                      \
  KERNEL(paceline_average, TensorArguments, average)                                                 \
  KERNEL(paceline_factors_lars, TensorArguments, tensor_factors<ps::OptimizerKind::kLars>)           \
  KERNEL(paceline_factors_lamb, TensorArguments, tensor_factors<ps::OptimizerKind::kLamb>)           \
  KERNEL(paceline_factors_adafactor, TensorArguments, tensor_factors<ps::OptimizerKind::kAdafactor>) \
  KERNEL(paceline_step_lars, TensorArguments, lars_step)                                             \
  KERNEL(paceline_moments_lamb, TensorArguments, lamb_moments)                                       \
  KERNEL(paceline_step_lamb, TensorArguments, go_along<ps::OptimizerKind::kLamb>)                    \
  KERNEL(paceline_rows_adafactor, TensorArguments, adafactor_rows)                                   \
  KERNEL(paceline_sums_adafactor, TensorArguments, adafactor_sums)                                   \
  KERNEL(paceline_columns_adafactor, TensorArguments, adafactor_columns)                             \
  KERNEL(paceline_row_factors_adafactor, TensorArguments, adafactor_row_factors)                     \
  KERNEL(paceline_divide_adafactor, TensorArguments, adafactor_divide)                               \
  KERNEL(paceline_step_adafactor, TensorArguments, go_along<ps::OptimizerKind::kAdafactor>)

}  // namespace paceline::cuda

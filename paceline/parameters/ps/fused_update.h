// The one pass over memory of a commit: sum the members' gradients, step the optimizer, write the new
// weights. Vectorized for the processor it runs on. Any thread, on ranges of its own.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/step_math.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

// One member's part: its gradient and its factor in the sum.
struct Weighted {
  const float* values;
  float weight;
  const Bfloat16* narrow = nullptr;  // the values of narrow tensors; null: `values` has them
};

// The memory of one pass; all pointers to the same range of the flat memory, but those to the state begin at its element
// `state_begin`.
struct UpdateStreams {
  const float* weights;  // version v − 1
  float* next_weights;   // version v; must not overlap `weights`
  // The streams of the optimizer's state, which its Spec names. The second may be null if it has only one; Adafactor looks
  // at it as well.
  float* state1;
  float* state2;
  // Along which the weights go on if no new gradient comes, for those who look ahead (look_ahead.h): direction() of the
  // optimizer's Step. Null: nobody does.
  float* direction = nullptr;
  Bfloat16* narrow =
      nullptr;  // version v once more, as programs read narrow tensors; null: they are not narrow
  // The state of version v − 1, if it is not in the memory of the new one. fused_update() alone looks at it.
  const float* before1 = nullptr;
  const float* before2 = nullptr;
  std::int64_t state_begin = 0;
};

// Over elements [begin, end): ḡ = Σ weight_i · g_i, times numbers.gradient, then the optimizer's step with
// `numbers`. Members' sums run in the order given, so the result does not depend on how the range is cut.
// Whether all weights and all state that it wrote are finite numbers; of a gradient that has NaN or ±inf they
// are not. Requires: at least one member; not is_tensorwise(kind).
bool fused_update(OptimizerKind kind, const StepNumbers& numbers, std::span<const Weighted> members,
                  const UpdateStreams& streams, std::int64_t begin, std::int64_t end);

// Σ ḡ² over elements [begin, end), with ḡ as above, in double precision: the same number on every processor.
// What is no finite number makes it none. Requires: at least one member; no more than kSquaresBlock elements.
double sum_of_squares(std::span<const Weighted> members, std::int64_t begin, std::int64_t end);

// Σ value², in double precision and in lanes of its own: the same number on every processor.
double squares_of(const float* values, std::int64_t n);
double squares_of(const Bfloat16* values, std::int64_t n);

// Writes the weights as programs read narrow tensors.
void narrow_copy(const float* weights, Bfloat16* narrow, std::int64_t n);

// The same of a whole tensor, as the tree of sums of step_math.h.
double squares_of_tensor(const float* values, std::int64_t n);

// The sum over the blocks of all parameters, in groups of kSquaresGroup: the same number on every processor,
// and on a card (step_math.h).
double sum_of_blocks(std::span<const double> squares);

// Writes the direction alone, of the state as it is. Requires: streams.direction; has_direction(kind);
// `numbers` of the latest update.
void update_direction(OptimizerKind kind, const StepNumbers& numbers, const UpdateStreams& streams,
                      std::int64_t begin, std::int64_t end);

// Whether all of so many numbers are finite.
bool all_finite(const float* values, std::int64_t n);
bool all_finite(const Bfloat16* values, std::int64_t n);
// The same for a gradient of this layout, and for floats [begin, end) of it; constants are not looked at.
bool all_finite(const Layout& layout, const float* gradient);
bool all_finite(const Layout& layout, const float* gradient, Layout::Range range);

// next = Σ weight_i · value_i: gradients of tensors that are stepped as a whole.
void fused_average(std::span<const Weighted> members, float* next, std::int64_t begin, std::int64_t end);

// The same for statistics, with shares that add up to 1: a number that all members have is kept to the bit
// (step_math.h). `next` may be the memory of a member.
void average_statistics(std::span<const Weighted> members, float* next, std::int64_t begin, std::int64_t end);

// next = before + pull · (next − before).
void pull_part_way(const float* before, float pull, float* next, std::int64_t begin, std::int64_t end);

}  // namespace paceline::ps

// The arguments of the kernels that step a shard in a card's memory. Plain structs, which a launch passes by
// value; kernels.h has the kernels' names. All that they point to is memory of the card. Positions count
// floats from the begin of the shard's flat memory. Whole numbers and structs alone, because clang compiles
// this for the card too.
#pragma once

#include <cstdint>

#include "paceline/parameters/ps/step_math.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::cuda {

// One member of a commit.
struct MemberArgument {
  const float* gradient;                 // the gradient and the statistics; constants are not read
  float weight;                          // the gradient's factor in the sum
  float share;                           // the statistics' factor in theirs
  const ps::Bfloat16* narrow = nullptr;  // the gradients of narrow tensors (ps/bfloat16.h)
};

inline constexpr std::int16_t kParameterPiece = 0;
inline constexpr std::int16_t kStatisticPiece = 1;
inline constexpr std::int16_t kNarrowPiece = 2;  // a part of a narrow tensor
// The most floats of a piece.
inline constexpr std::int32_t kPieceFloats = 4096;

// A range for which a commit does the same, and which one block of threads steps. Fast where `begin` and
// `size` are multiples of 4, and right for all others.
struct Piece {
  std::int64_t begin;
  std::int32_t size;       // at most kPieceFloats
  std::int16_t kind;       // kParameterPiece, kStatisticPiece or kNarrowPiece
  std::int16_t optimizer;  // a place in UpdateArguments::numbers; a statistic has none
};

// The argument of paceline_step_*, which do for each piece what a step of ps::Shard does, and of
// paceline_direction_*, which write the direction of the state as it is: these look at pieces, numbers,
// state1, state2 and direction alone. Pieces do not overlap. Neither does `next` with any other memory.
struct UpdateArguments {
  const float* weights = nullptr;  // version v − 1
  float* next = nullptr;           // version v
  float* state1 = nullptr;         // ps::UpdateStreams says what the two are
  float* state2 = nullptr;         // null: the optimizer has only one
  // The state of version v − 1 if it must stay as it is; null: it is in state1 and state2.
  const float* state1_before = nullptr;
  const float* state2_before = nullptr;
  float* direction = nullptr;      // null: nobody looks ahead
  ps::Bfloat16* narrow = nullptr;  // version v of the narrow tensors, as programs read them
  const Piece* pieces = nullptr;
  const MemberArgument* members = nullptr;
  const ps::StepNumbers* numbers = nullptr;
  const float* gradient_factor = nullptr;  // times StepNumbers::gradient: a word of ClipArguments; null: 1
  std::uint32_t* marks = nullptr;  // or-ed with kNotFinite if a weight or state that it wrote is not finite
  std::int32_t piece_count = 0;
  std::int32_t member_count = 0;  // at least 1 if there is a step
  float pull = 1;                 // ps::statistics_pull(); 1 for differences of weights
};

inline constexpr std::uint32_t kNotFinite = 0x80000000u;

// A part of one parameter tensor, whose squares are summed in 16 lanes. A tensor is cut into blocks of
// ps::kSquaresBlock floats; the last one is what is left. `begin` is below 0 in parts of other shards.
struct SquaresBlock {
  std::int64_t begin;
  std::int64_t size;
};

// The tree of sums of ps/step_math.h, for paceline_squares_lanes, paceline_squares_blocks and
// paceline_squares_groups, launched in this order: one thread makes one number of lanes, squares or groups,
// so a launch has as many threads as there are numbers, or fewer, which then make several each.
struct SquaresArguments {
  const MemberArgument* members = nullptr;
  const SquaresBlock* blocks = nullptr;
  double* lanes = nullptr;    // ps::kSquaresLanes · block_count
  double* squares = nullptr;  // block_count
  double* groups = nullptr;   // group_count: block_count / ps::kSquaresGroup, rounded up
  std::int32_t member_count = 0;
  std::int32_t block_count = 0;
  std::int32_t group_count = 0;
  std::int64_t narrow_end = 0;  // blocks that begin before this are of narrow tensors
};

// The argument of paceline_clip_factor: one thread of one block.
struct ClipArguments {
  const double* groups =
      nullptr;              // SquaresArguments::groups; null: `total` is given, the sum over all shards
  double* total = nullptr;  // the squared norm; written if `groups` is given
  float* factor = nullptr;  // ps::clip_factor(√total, clip); null: only the total is wanted
  double clip = 0;
  std::int32_t group_count = 0;
};

// The argument of paceline_finite, which looks at the pieces' floats of `values`.
struct FiniteArguments {
  const float* values = nullptr;
  const Piece* pieces = nullptr;
  std::uint32_t* marks = nullptr;  // or-ed with kNotFinite if one is not finite
  std::int32_t piece_count = 0;
};

// ---- LARS, LAMB and Adafactor, which step a tensor as a whole ----

// A parameter tensor. Its blocks of squares follow one another, as ps::squares_blocks() cuts them.
struct TensorArgument {
  std::int64_t begin;  // floats [begin, begin + size), and padding up to `end`
  std::int64_t size;
  std::int64_t end;
  std::int64_t first_block;  // the first of its blocks of squares
  // Adafactor's matrices: of the last two dimensions if both are larger than 1; else `matrices` is 0.
  std::int64_t matrices, height, width;
  // How many of these the tensors before it have.
  std::int64_t rows_before;     // matrices · height
  std::int64_t sums_before;     // matrices · chunks · (width + 1); a chunk is of ps::kChunkRows rows
  std::int64_t columns_before;  // matrices · (width + 1)
  std::int32_t optimizer;       // a place in UpdateArguments::numbers
  std::int32_t adapted;         // 1 if LARS and LAMB multiply its step by a ratio of norms, else 0
};

// In `update` a piece of a parameter is of one tensor, padding included, and Piece::optimizer is the tensor's
// place in `tensors`. `next` has the averaged gradient first, then the step along it, then the new weights.
struct TensorArguments {
  UpdateArguments update;
  const TensorArgument* tensors = nullptr;
  const double* weight_squares = nullptr;  // one a block, by paceline_squares_blocks over the weights
  const double* step_squares = nullptr;    // the same over `next`
  float* factors = nullptr;                // one a tensor
  float* row_factors = nullptr;            // row_count
  double* sums = nullptr;   // sum_count: by chunk, of each column's squares, then of the rows' means
  double* means = nullptr;  // column_count: behind each matrix's columns, the mean of its rows' means
  std::int64_t row_count = 0;
  std::int64_t sum_count = 0;
  std::int64_t column_count = 0;
  std::int32_t tensor_count = 0;
};

}  // namespace paceline::cuda

// The kernels that step a shard in a card's memory, as text that the driver translates for its card.
// kernel_arguments.h has their arguments. They use no shared memory and do not wait for one another; any grid
// of any size computes the same bytes, which are those of ps::Shard on a processor. Only of NaN the card may
// write another one.
#pragma once

#include <span>

#include "paceline/parameters/ps/update_rule.h"

namespace paceline::cuda {

// PTX for every card since Volta (sm_70), ending with 0.
const char* kernels_ptx();

// Threads of a block, for all kernels but paceline_clip_factor.
inline constexpr unsigned kThreads = 256;

// Take an UpdateArguments; as many blocks as there are pieces, or fewer.
struct KernelNames {
  const char* step;
  const char* direction;  // null if the optimizer has no direction
};
// Requires: not is_tensorwise(kind).
KernelNames kernels_of(ps::OptimizerKind kind);

// Take a SquaresArguments.
inline constexpr const char* kSquaresLanesKernel = "paceline_squares_lanes";
inline constexpr const char* kSquaresBlocksKernel = "paceline_squares_blocks";
inline constexpr const char* kSquaresGroupsKernel = "paceline_squares_groups";
// Takes a ClipArguments.
inline constexpr const char* kClipFactorKernel = "paceline_clip_factor";
// Takes a FiniteArguments; as many blocks as there are pieces, or fewer.
inline constexpr const char* kFiniteKernel = "paceline_finite";

// The kernels of a step of an optimizer that steps whole tensors, in their order. They take a
// TensorArguments, in any grid. kSquaresLanesKernel among them stands for four launches: it and
// kSquaresBlocksKernel over the weights, as the gradient of one member of weight 1, for
// TensorArguments::weight_squares; and both over `next`, for step_squares. Requires: is_tensorwise(kind).
std::span<const char* const> tensor_kernels(ps::OptimizerKind kind);

}  // namespace paceline::cuda

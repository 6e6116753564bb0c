// Pieces and blocks of a layout, as kernels take them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/parameters/cuda/kernel_arguments.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/passes.h"
#include "paceline/parameters/ps/step_plan.h"

namespace paceline::cuda {

// The parts of these passes in floats [begin, end), without constants.
std::vector<Piece> pieces_of(std::span<const ps::Pass> passes, std::int64_t begin, std::int64_t end);

// The blocks of ps::squares_blocks().
std::vector<SquaresBlock> blocks_of(std::span<const ps::Layout::Range> ranges);

// For optimizers that step tensors as a whole.
struct TensorTables {
  std::vector<Piece> pieces;  // parameters and statistics; each is a part of one tensor and its padding
  std::vector<TensorArgument> tensors;
  std::vector<SquaresBlock> blocks;
  // The counts of TensorArguments.
  std::int64_t row_count = 0, sum_count = 0, column_count = 0;
};
// Requires: at most 32768 parameter tensors.
TensorTables tensors_of(const ps::StepPlan& plan);

}  // namespace paceline::cuda

// Pieces and blocks of a layout, as kernels take them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/cuda/kernel_arguments.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/passes.h"

namespace paceline::cuda {

// What lies of these passes in floats [begin, end), without constants.
std::vector<Piece> pieces_of(std::span<const ps::Pass> passes, std::int64_t begin, std::int64_t end);

// The blocks of ps::squares_blocks().
std::vector<SquaresBlock> blocks_of(std::span<const ps::Layout::Range> ranges);

}  // namespace paceline::cuda

#include "paceline/cuda/pieces.h"

#include <algorithm>

namespace paceline::cuda {

std::vector<Piece> pieces_of(std::span<const ps::Pass> passes, std::int64_t begin, std::int64_t end) {
  std::vector<Piece> pieces;
  for (const ps::Pass& pass : passes) {
    if (pass.kind == ps::TensorKind::kConstant) continue;
    const std::int16_t kind = pass.kind == ps::TensorKind::kParameter ? kParameterPiece : kStatisticPiece;
    const std::int64_t last = std::min(end, pass.end);
    for (std::int64_t at = std::max(begin, pass.begin); at < last; at += kPieceFloats) {
      const auto size = static_cast<std::int32_t>(std::min<std::int64_t>(kPieceFloats, last - at));
      pieces.push_back({at, size, kind, static_cast<std::int16_t>(pass.optimizer)});
    }
  }
  return pieces;
}

std::vector<SquaresBlock> blocks_of(std::span<const ps::Layout::Range> ranges) {
  std::vector<SquaresBlock> blocks;
  for (const ps::Layout::Range& range : ranges) blocks.push_back({range.begin, range.end - range.begin});
  return blocks;
}

}  // namespace paceline::cuda

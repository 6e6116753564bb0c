#include "paceline/parameters/cuda/pieces.h"

#include <algorithm>
#include <limits>

#include "paceline/base/check.h"

namespace paceline::cuda {

std::vector<Piece> pieces_of(std::span<const ps::Pass> passes, std::int64_t begin, std::int64_t end) {
  std::vector<Piece> pieces;
  for (const ps::Pass& pass : passes) {
    if (pass.kind == ps::TensorKind::kConstant) continue;
    const std::int16_t kind = pass.kind == ps::TensorKind::kStatistic ? kStatisticPiece
                              : pass.narrow                           ? kNarrowPiece
                                                                      : kParameterPiece;
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

TensorTables tensors_of(const ps::StepPlan& plan) {
  TensorTables tables;
  tables.blocks = blocks_of(ps::squares_blocks(plan.layout, 0));
  std::int64_t blocks = 0;
  for (const ps::StepPlan::Whole& whole : plan.wholes) {
    const ps::TensorSpec& spec = whole.tensor;
    const ps::Pass pass{spec.kind, tables.tensors.size(), spec.offset, whole.end};
    const std::vector<Piece> pieces = pieces_of({&pass, 1}, spec.offset, whole.end);
    tables.pieces.insert(tables.pieces.end(), pieces.begin(), pieces.end());
    if (spec.kind != ps::TensorKind::kParameter) continue;
    PACELINE_CHECK(tables.tensors.size() <= std::numeric_limits<std::int16_t>::max(), "{} tensors",
                   tables.tensors.size() + 1);
    TensorArgument tensor{};
    tensor.begin = spec.offset;
    tensor.size = spec.size;
    tensor.end = whole.end;
    tensor.first_block = blocks;
    tensor.optimizer = static_cast<std::int32_t>(whole.optimizer);
    tensor.adapted = spec.shape.size() > 1 ? 1 : 0;
    tensor.rows_before = tables.row_count;
    tensor.sums_before = tables.sum_count;
    tensor.columns_before = tables.column_count;
    if (spec.shape.size() > 1 && spec.shape.back() > 1 && spec.shape[spec.shape.size() - 2] > 1) {
      tensor.width = spec.shape.back();
      tensor.height = spec.shape[spec.shape.size() - 2];
      tensor.matrices = spec.size / (tensor.width * tensor.height);
    }
    const std::int64_t chunks = (tensor.height + ps::kChunkRows - 1) / ps::kChunkRows;
    tables.row_count += tensor.matrices * tensor.height;
    tables.sum_count += tensor.matrices * chunks * (tensor.width + 1);
    tables.column_count += tensor.matrices * (tensor.width + 1);
    blocks += (spec.size + ps::kSquaresBlock - 1) / ps::kSquaresBlock;
    tables.tensors.push_back(tensor);
  }
  return tables;
}

}  // namespace paceline::cuda

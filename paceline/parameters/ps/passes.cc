#include "paceline/parameters/ps/passes.h"

#include <algorithm>
#include <optional>

#include "paceline/parameters/ps/step_math.h"

namespace paceline::ps {

std::vector<Pass> passes_of(const Layout& layout, std::span<const ParameterGroup> groups) {
  const std::vector<std::optional<std::size_t>> group = groups_in(layout, groups);
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    const bool steps = tensor.kind == TensorKind::kParameter;
    const std::size_t optimizer = steps && group[i] ? *group[i] + 1 : 0;
    const bool narrow = tensor.offset < layout.narrow();
    if (!passes.empty()) passes.back().end = tensor.offset;
    if (passes.empty() || passes.back().kind != tensor.kind || passes.back().optimizer != optimizer ||
        passes.back().narrow != narrow)
      passes.push_back({tensor.kind, optimizer, tensor.offset, 0, narrow});
  }
  if (!passes.empty()) passes.back().end = layout.size();
  return passes;
}

std::vector<Layout::Range> squares_blocks(const Layout& layout, std::int64_t before) {
  std::vector<Layout::Range> blocks;
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.kind != TensorKind::kParameter) continue;
    const std::int64_t end = tensor.offset - before + tensor.size;
    for (std::int64_t begin = tensor.offset - before; begin < end; begin += kSquaresBlock)
      blocks.push_back({begin, std::min(end, begin + kSquaresBlock)});
  }
  return blocks;
}

}  // namespace paceline::ps

// The plan of a shard's commits: what is done with which floats. It does not change while the shard lives.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/parameter_groups.h"
#include "paceline/parameters/ps/passes.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

// The model whose gradients members give, if a shard sees all of them beside its own part.
struct WholeModel {
  Layout layout;
  std::int64_t offset = 0;  // offset of the shard's part, in floats
};

struct StepPlan {
  // `groups`: of the whole model, which they fit (check_groups). An optimizer that clips gradients needs a
  // shard that is the whole model, or `whole`, or Update::squares_of_all. One that steps tensors as a whole
  // (is_tensorwise) needs a layout without pieces and without narrow tensors.
  static StepPlan of(Layout layout, const OptimizerConfig& optimizer,
                     std::span<const ParameterGroup> groups = {},
                     const std::optional<WholeModel>& whole = {});

  // A part of what commits change, and how much of that lies before it.
  struct Moving {
    std::int64_t begin;  // floats [begin, end) of the layout
    std::int64_t end;
    std::int64_t before;
  };
  // A tensor that commits change, for optimizers that step tensors as a whole.
  struct Whole {
    TensorSpec tensor;
    std::int64_t end;  // end of its padding
    std::size_t optimizer;
  };

  Layout layout;
  OptimizerConfig optimizer;
  // the first for all tensors without a group, then one for each group
  std::vector<OptimizerConfig> optimizers;
  std::vector<Layout::Run> runs;
  std::vector<Pass> passes;  // the passes cover the layout
  std::vector<Moving> moving;
  std::int64_t moving_floats = 0;
  std::vector<Whole> wholes;  // empty if the optimizer does not need it
  // If gradients are clipped: all parameters whose gradients are seen here, in blocks of kSquaresBlock floats
  // that do not depend on how work is shared. Their positions count from this shard's begin.
  std::vector<Layout::Range> blocks;
  // Blocks that begin before this are of narrow tensors.
  std::int64_t narrow_blocks_end = 0;
};

}  // namespace paceline::ps

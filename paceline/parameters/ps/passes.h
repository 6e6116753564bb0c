// The parts of a model for which a commit does the same. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/parameter_groups.h"

namespace paceline::ps {

// Neighbouring tensors of one kind and, if they are parameters, of one optimizer and all narrow or not: floats [begin, end).
struct Pass {
  TensorKind kind;
  std::size_t optimizer;  // 0 is that of tensors without a group; group i has i + 1
  std::int64_t begin;
  std::int64_t end;
  bool narrow = false;  // its tensors are (bfloat16.h)
};

// The passes cover the layout, padding included. `groups`: of the whole model, which they fit.
std::vector<Pass> passes_of(const Layout& layout, std::span<const ParameterGroup> groups);

// All parameters in blocks of at most kSquaresBlock floats, which do not depend on how work is shared. Each
// is of one tensor, without padding. Positions count from float `before` of the layout.
std::vector<Layout::Range> squares_blocks(const Layout& layout, std::int64_t before);

}  // namespace paceline::ps

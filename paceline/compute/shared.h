// Shared memory of a worker's, as an engine is told of it.
#pragma once

#include "paceline/engine/engine.h"
#include "paceline/memory/gradient_buffer.h"
#include "paceline/memory/shared_memory.h"

namespace paceline::compute {

inline engine::Memory memory_of(const memory::SharedFloats& floats, bool writable) {
  return {floats.path(), floats.mapping().data(), floats.mapping().size(), 0, writable};
}

inline engine::Memory memory_of(const memory::GradientWriter& gradient) {
  return {gradient.path(), gradient.mapping().data(), gradient.mapping().size(), 0, true};
}

}  // namespace paceline::compute

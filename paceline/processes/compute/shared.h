// Shared memory of a worker's, as an engine is told of it.
#pragma once

#include <cstddef>
#include <utility>

#include "paceline/computing/engine/engine.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::compute {

inline engine::Memory memory_of(const ipc::SharedFloats& floats, bool writable) {
  return {floats.path(), floats.mapping().data(), floats.mapping().size(), 0, writable};
}

inline engine::Memory memory_of(const memory::GradientWriter& gradient) {
  return {gradient.path(), gradient.mapping().data(), gradient.mapping().size(), 0, true};
}

// Memory that an engine knows for as long as this is there. The engine and the memory outlive it.
class SharedWith {
 public:
  SharedWith(engine::Engine& engine, const engine::Memory& memory) : engine_(&engine), base_(memory.base) {
    engine.share(memory);
  }
  SharedWith(SharedWith&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), base_(other.base_) {}
  SharedWith& operator=(SharedWith&& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(base_, other.base_);
    return *this;
  }
  ~SharedWith() {
    if (engine_ != nullptr) engine_->forget(base_);
  }

 private:
  engine::Engine* engine_;
  const std::byte* base_;
};

}  // namespace paceline::compute

// A page of the host's memory that a worker and its program's GPU both read and write, so that neither waits for the
// program's thread: the GPU's stream waits for the worker's word before a step, and writes its own word behind the step.
//
//   byte   0  begun: uint32, the number of the last step that may begin; written by the worker
//   byte   8  row: int64, the place of this step's weights in its list of memories; written by the worker before `begun`
//   byte  64  done: uint32, the number of the last step whose gradient is there; written by the program
//   byte 128  values: 32 float64 about that step; written by the program before `done`
//
// Numbers are compared as in a circle: n is behind m if int32(m − n) > 0. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::program {

class StepPage {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<StepPage> create();

  // The page as a program maps it.
  engine::Memory memory() const;
  // Step `number`, and each before it, may begin; its weights are at `row`.
  void let_begin(std::uint32_t number, std::int64_t row);
  // The gradient of step `number` is there, and so are its values.
  bool done(std::uint32_t number) const;
  // Requires: 0 ≤ slot < kStepValues.
  double value(int slot) const;

 private:
  explicit StepPage(ipc::SharedFloats page) : page_(std::move(page)) {}
  template <class Value>
  Value* at(std::size_t byte) const {
    return reinterpret_cast<Value*>(page_.mapping().data() + byte);
  }

  ipc::SharedFloats page_;
};

}  // namespace paceline::program

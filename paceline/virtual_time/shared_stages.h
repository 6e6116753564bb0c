// An iteration of a replica whose stages several devices share, with the bytes that it has live: each
// device's stage computes its own micro-batches, and the gradients of those that share a stage are added in
// the order of their turns (compute/pipeline_stage.h). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/engine/engine.h"
#include "paceline/memory/shared_memory.h"
#include "paceline/sim/cluster_model.h"

namespace paceline::virtual_time {

// Whether that is so of a replica of these devices.
bool any_shared(const std::vector<sim::StageModel>& devices);

class SharedStages {
 public:
  // The engine outlives this. Errors: those of Engine::make_stage.
  static absl::StatusOr<std::unique_ptr<SharedStages>> create(engine::Engine& engine,
                                                              const std::vector<sim::StageModel>& devices,
                                                              std::int64_t micro_batch);

  ~SharedStages();

  // As Engine::step; `gradient`: of the layout's size.
  absl::StatusOr<engine::StepResult> step(const engine::Batch& batch, std::span<const float* const> weights,
                                          std::span<float> gradient, const engine::KeepGoing& keep_going);

 private:
  // The devices of one, by turn.
  using Stage = std::vector<std::unique_ptr<engine::Stage>>;

  SharedStages(engine::Engine& engine, std::int64_t micro_batch)
      : engine_(engine), layout_(engine.layout()), micro_batch_(micro_batch) {}
  // A micro-batch's way there and back; its loss.
  absl::StatusOr<double> run(std::int64_t micro, const engine::KeepGoing& keep_going);
  absl::Status hand_on(engine::Stage& from, engine::Stage& to, std::int64_t micro, bool forward);

  engine::Engine& engine_;
  const ps::Layout& layout_;
  const std::int64_t micro_batch_;
  std::vector<Stage> stages_;
  // Of the devices of the second turn and after: parts of each stage's.
  std::vector<memory::SharedFloats> gradients_;
  std::vector<std::byte> message_;
};

}  // namespace paceline::virtual_time

// An iteration of a replica with shared stages, with the same bytes as live: each device's stage computes its
// own micro-batches, and the gradients of devices that share a stage are added in the order of their turns
// (compute/pipeline_stage.h). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/simulation/sim/cluster_model.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::virtual_time {

// Whether any of these devices share a stage.
bool any_shared(const std::vector<sim::StageModel>& devices);

class SharedStages {
 public:
  // The engine outlives this. Errors: those of Engine::make_stage.
  static absl::StatusOr<std::unique_ptr<SharedStages>> create(engine::Engine& engine,
                                                              const std::vector<sim::StageModel>& devices,
                                                              std::int64_t micro_batch);

  ~SharedStages();

  // Like Engine::step; `gradient` has the layout's size.
  absl::StatusOr<engine::StepResult> step(const engine::Batch& batch, std::span<const float* const> weights,
                                          std::span<float> gradient, const engine::KeepGoing& keep_going);

 private:
  // The devices of one stage, in the order of turns.
  using Stage = std::vector<std::unique_ptr<engine::Stage>>;

  SharedStages(engine::Engine& engine, std::int64_t micro_batch)
      : engine_(engine), layout_(engine.layout()), micro_batch_(micro_batch) {}
  // Runs a micro-batch there and back; returns its loss.
  absl::StatusOr<double> run(std::int64_t micro, const engine::KeepGoing& keep_going);
  absl::Status hand_on(engine::Stage& from, engine::Stage& to, std::int64_t micro, bool forward);

  engine::Engine& engine_;
  const ps::Layout& layout_;
  const std::int64_t micro_batch_;
  std::vector<Stage> stages_;
  // Gradients of the devices of the second turn and later: parts of each stage's gradient.
  std::vector<ipc::SharedFloats> gradients_;
  std::vector<std::byte> message_;
};

}  // namespace paceline::virtual_time

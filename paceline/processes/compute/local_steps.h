// An iteration of local SGD: the replica steps by itself, from the weights that it pulled, with a velocity of
// its own that continues from round to round. It contributes its total move. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/sample_order.h"
#include "paceline/base/time.h"
#include "paceline/computing/engine/engine.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::compute {

// All of a lease; its samples are none when it is not one of this data set.
engine::Batch batch_of(SampleOrder& order, const Lease& lease);
// The samples of a lease, in so many parts that differ by at most one sample. A part that would be empty is
// left out; none when the lease is not one of this data set. Requires: at least one step.
std::vector<engine::Batch> step_samples(SampleOrder& order, const Lease& lease, std::int64_t steps);

// Prepared, at these weights. A step that asks for it (a loss scaler's overflow) is taken again, since its
// samples are to be trained on. One that was skipped otherwise would be skipped each time, by every worker:
// its gradient is zero, and its statistics are those of the weights. Errors: those of Engine::step();
// FailedPrecondition when the overflows do not end.
absl::StatusOr<engine::StepResult> step_until_taken(engine::Engine& engine, const engine::Batch& batch,
                                                    const engine::Weights& weights,
                                                    std::span<float* const> gradients,
                                                    std::int64_t micro_batch,
                                                    const engine::KeepGoing& keep_going);

class LocalSteps {
 public:
  // Errors: FailedPrecondition if the engine brings the state of an optimizer, which no replica would begin with.
  static absl::Status check_stateless(const engine::Engine& engine);
  // Requires: SGD. Errors: no memory.
  static absl::StatusOr<LocalSteps> create(const ps::Layout& layout, const ps::OptimizerConfig& optimizer);

  // To be shared with the engine that takes the steps, and forgotten by it.
  std::vector<engine::Memory> memories() const;

  // For a new replica: what an earlier one left in the velocity, perhaps a number that is not finite, does not go on.
  void reset_momentum() { std::fill(velocity_.begin(), velocity_.end(), 0.0f); }

  // One step for each of `batches`, the means of their losses and metrics. `weights` and `contribution`: one pointer a
  // tensor; the contribution is weights at the start − weights at the end, and for statistics what they are
  // at the end. Errors: those of Engine::step().
  absl::StatusOr<engine::StepResult> take(engine::Engine& engine, std::span<const engine::Batch> batches,
                                          double learning_rate, std::span<const float* const> weights,
                                          std::span<float* const> contribution,
                                          const engine::KeepGoing& keep_going);
  // How long the samples of the steps taken last were waited for.
  Duration loading() const { return loading_; }

 private:
  LocalSteps(const ps::Layout& layout, const ps::OptimizerConfig& optimizer,
             std::vector<ipc::SharedFloats> shared);
  std::span<float> weights() { return shared_[at_].floats(); }
  std::span<float> next() { return shared_[1 - at_].floats(); }
  std::span<float> gradient() { return shared_[2].floats(); }
  void pull(std::span<const float* const> weights);
  void step(const ps::StepNumbers& numbers);
  void contribute(std::span<const float* const> weights, std::span<float* const> contribution);

  ps::Layout layout_;
  ps::OptimizerConfig optimizer_;
  bool with_constants_ = false;
  // Two weights (a step makes one from the other) and a gradient: the engine sees them.
  std::vector<ipc::SharedFloats> shared_;
  std::size_t at_ = 0;  // the weights as they are now
  std::vector<float> velocity_;
  Duration loading_{0};
};

}  // namespace paceline::compute

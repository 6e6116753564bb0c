// One copy of a model that computes gradients on the caller's weights. It keeps no weights: every call gets
// pointers to them, and writes its gradient straight to memory of the caller. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/micro_batches.h"
#include "paceline/formats/config/model_config.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::train {

using engine::Evaluation;
using engine::StepResult;
using engine::tensor_pointers;

class LocalModel {
 public:
  // Builds the model for samples of this shape. Errors: as make_model.
  static absl::StatusOr<std::unique_ptr<LocalModel>> create(const config::ModelConfig& model,
                                                            const std::vector<std::int64_t>& sample_shape,
                                                            std::int64_t classes, std::uint64_t seed);
  ~LocalModel();

  const ps::Layout& layout() const;

  // The weights that `seed` gives, written to layout().size() floats; padding is zero.
  void initial_weights(std::span<float> out) const;

  // The mean gradient over the batch at `weights`: one pointer a tensor of layout(), in its order; so is
  // `gradients`. Statistics: read from weights, and what they became in this step written to gradients.
  // `weights` is only read, and may be mapped read-only. `seed` fixes whatever the model draws.
  // The batch is computed `most` samples at a time, as the stages of a pipeline do it (stage.h says
  // what that means to batch norm). Errors: libtorch's own (out of memory, shapes), as Internal; what is in
  // `gradients` is then worth nothing.
  absl::StatusOr<StepResult> step(const Batch& batch, std::span<const float* const> weights,
                                  std::span<float* const> gradients, std::uint64_t seed,
                                  std::int64_t most = kWholeBatch);

  // Loss and accuracy over the whole set, in chunks of `chunk` samples, with running statistics. `keep_going`
  // is asked between chunks; when it says no, the answer is Cancelled.
  absl::StatusOr<Evaluation> evaluate(const DataSet& data, std::span<const float* const> weights,
                                      std::int64_t chunk, const std::function<bool()>& keep_going);

 private:
  struct Impl;
  explicit LocalModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::train

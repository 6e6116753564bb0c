// A run of a model's units on one device: one stage of a pipeline, or the whole model when it is the only
// one. Like a LocalModel it keeps no weights: every iteration gets pointers to them, and writes its gradient
// to memory of the caller. It has no order of its own: the caller follows a schedule. One thread.
//
// Invariant: weights and gradients are laid out as of the whole model, and the stage touches its own
// tensors alone, so the stages of a pipeline may share that memory. The gradient of an iteration is that of
// the mean loss over its batch: each micro-batch counts by its share of the samples, added in the order of
// the backward passes. So any cut gives the same bits as the whole model on the same micro-batches.
//
// Batch norm normalizes by the micro-batch. Its running statistics are, after an iteration, the
// micro-batches' mean by samples of what each would have made of those at the start: an iteration forgets as
// much as without micro-batches.
//
// Random numbers of units are seeded at the start of an iteration, for the stage. So a model with random
// numbers would draw others when it is cut. Of the built-in models, `alexnet` and `vgg16-plain` do (dropout).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <absl/status/statusor.h>
#include <torch/types.h>

#include "paceline/formats/config/model_config.h"
#include "paceline/parameters/ps/float_range.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::train {

struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // the first unit behind the range
};

// The units of the whole model. Errors: as make_model.
absl::StatusOr<std::int64_t> unit_count(const config::ModelConfig& model,
                                        const std::vector<std::int64_t>& sample_shape, std::int64_t classes);

class Stage {
 public:
  // Errors: as make_model; InvalidArgument when the model has no such units.
  static absl::StatusOr<std::unique_ptr<Stage>> create(const config::ModelConfig& model,
                                                       const std::vector<std::int64_t>& sample_shape,
                                                       std::int64_t classes, UnitRange units);
  ~Stage();

  // The layout of the whole model.
  const ps::Layout& layout() const;
  // The places of this stage's own tensors in the layout: it writes no other part of a gradient.
  std::vector<ps::FloatRange> floats() const;
  // The shape of one sample, float32, that comes from another stage or goes to one.
  const std::vector<std::int64_t>& input_shape() const;
  const std::vector<std::int64_t>& output_shape() const;

  // An iteration begins. Both spans have one pointer for each tensor of layout(), valid until the next
  // iteration begins. `weights` is only read. The rest of an earlier iteration is forgotten, so one may be
  // given up at any point.
  absl::Status start(std::span<const float* const> weights, std::span<float* const> gradients,
                     std::uint64_t seed);

  // Micro-batch number `micro`, `share` of the batch's samples: its output. `input` stays as it is until the
  // backward pass. Requires: not run forward before in this iteration. Errors: libtorch's own, as Internal.
  absl::StatusOr<torch::Tensor> forward(std::int64_t micro, const torch::Tensor& input, double share);
  // The same for the last stage: the mean loss over the micro-batch, in nats.
  absl::StatusOr<double> forward(std::int64_t micro, const torch::Tensor& input, const torch::Tensor& targets,
                                 double share);

  // Adds the micro-batch's part to the gradients. `output_gradient`: the gradient of its output; undefined in
  // the last stage. Returns the gradient of its input, undefined if that is data. Requires: run forward, and
  // not backward.
  absl::StatusOr<torch::Tensor> backward(std::int64_t micro, const torch::Tensor& output_gradient);

 private:
  struct Impl;
  explicit Stage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::train

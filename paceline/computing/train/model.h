// The built-in models. Every model is a Sequential of units (a layer, or a whole residual block), so that it
// can be cut between any two of them.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>
#include <torch/nn/modules/container/sequential.h>

#include "paceline/formats/config/model_config.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::train {

// Weights drawn from `seed` alone: every process that builds the model gets the same. Logits come out:
// [n, classes], or [n, context, classes] for bytes. Errors: an unknown name, or a model that does not fit the
// samples (an image model on text, heads that do not divide width, …).
absl::StatusOr<torch::nn::Sequential> make_model(const config::ModelConfig& model,
                                                 const std::vector<std::int64_t>& sample_shape,
                                                 std::int64_t classes, std::uint64_t seed);

// Parameters, then batch-norm running means and variances, in the order and under the names libtorch gives.
ps::Layout layout_of(torch::nn::Sequential& model);

}  // namespace paceline::train

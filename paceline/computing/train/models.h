// The definition of a built-in model: one Model for each line of config/model_names.h, in a source file of
// its own or of its family. For this folder and its tests; model.h is what others use. Models build modules
// and leave the weights to initial_weights.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/modules/container/sequential.h>

#include "paceline/base/rng.h"
#include "paceline/computing/train/images.h"
#include "paceline/formats/config/model_config.h"
#include "paceline/formats/config/model_names.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::train {

// One sample's, without the batch: {channels, height, width}, or {bytes}.
using SampleShape = std::vector<std::int64_t>;

// Image models take any image. Errors: InvalidArgument that names the samples' shape.
absl::Status check_images(const config::ModelConfig& model, const SampleShape& samples);
absl::Status at_least_one(const char* key, std::int64_t value);

// Convolutions ([out, in, height, width]) He normal by fan-out, dense layers ([out, in]) uniform in
// ±1/√fan-in.
void draw_image_tensor(const config::ModelConfig& model, const ps::TensorSpec& tensor, Rng& rng,
                       std::span<float> out);
void draw_normal(double deviation, Rng& rng, std::span<float> out);

inline ImageShape image_of(const SampleShape& samples) { return {samples[0], samples[1], samples[2]}; }

struct Samples {
  SampleShape shape;
  std::int64_t classes = 0;
};
inline Samples cifar_samples(const config::ModelConfig&) { return {{3, 32, 32}, kImageClasses}; }

struct Model {
  // Whether the model can be built for such samples. Errors: InvalidArgument, with what to write instead.
  absl::Status (*check)(const config::ModelConfig& model, const SampleShape& samples) = check_images;
  // Requires: check() said OK. Units in a row; logits come out, [n, classes] or [n, context, classes].
  torch::nn::Sequential (*build)(const config::ModelConfig& model, const SampleShape& samples,
                                 std::int64_t classes) = nullptr;
  // Draws the first weights of a tensor of two dimensions or more. A function of its arguments alone.
  void (*draw)(const config::ModelConfig& model, const ps::TensorSpec& tensor, Rng& rng,
               std::span<float> out) = draw_image_tensor;
  // The default samples for measuring the model.
  Samples (*usual)(const config::ModelConfig& model) = cifar_samples;
};

struct Models {
#define PACELINE_DECLARE(identifier, name) static const Model identifier;
  PACELINE_MODELS(PACELINE_DECLARE)
#undef PACELINE_DECLARE
};

// nullptr if there is no model of this name.
const Model* find_model(const std::string& name);

// make_model without the weights: they are whatever libtorch drew.
absl::StatusOr<torch::nn::Sequential> build_model(const config::ModelConfig& model,
                                                  const SampleShape& samples, std::int64_t classes);
// make_model for a model that need not be in the table; `model` holds its settings.
absl::StatusOr<torch::nn::Sequential> make_model(const Model& kind, const config::ModelConfig& model,
                                                 const SampleShape& samples, std::int64_t classes,
                                                 std::uint64_t seed);

struct NamedTensor {
  std::string name;
  ps::TensorKind kind = ps::TensorKind::kParameter;
  torch::Tensor tensor;
};

// The tensors of layout_of, in its order. Other buffers (counters, masks) are no part of a model's weights.
std::vector<NamedTensor> layout_tensors(torch::nn::Sequential& model);

}  // namespace paceline::train

// The families of the model zoo, one .cc each, for make_model and the LocalModel only. They build modules and
// leave the weights to initial_weights.h. Sizes are checked by make_model before it calls here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/modules/container/sequential.h>

#include "paceline/config/model_config.h"
#include "paceline/ps/layout.h"
#include "paceline/train/images.h"

namespace paceline::train {

// Two hidden layers of `width`.
torch::nn::Sequential build_mlp(ImageShape shape, std::int64_t classes, std::int64_t width);

// Two convolutions and two dense layers.
torch::nn::Sequential build_cnn(ImageShape shape, std::int64_t classes);

// The small AlexNet of the DSSP paper (Zhao et al. 2019): three convolutions, two dense layers. Most of its
// weights are in the first dense layer, so it sends much for what it computes.
torch::nn::Sequential build_alexnet_small(ImageShape shape, std::int64_t classes);

// AlexNet in one tower (Krizhevsky 2014), as libtorch's users know it: five convolutions and three dense
// layers, with dropout before two of them. Requires: images of at least 63 x 63 pixels.
torch::nn::Sequential build_alexnet(ImageShape shape, std::int64_t classes);
inline constexpr std::int64_t kLeastAlexnetPixels = 63;

// CIFAR's residual networks (He et al. 2016, section 4.2) of 6 · `blocks` + 2 layers.
torch::nn::Sequential build_resnet(std::int64_t channels, std::int64_t classes, int blocks);

// CIFAR's form of VGG (Simonyan, Zisserman 2015) with batch norm: convolutions a stage, then one dense layer.
torch::nn::Sequential build_vgg(std::int64_t channels, std::int64_t classes, const std::vector<int>& stages);

// VGG-16 as its authors have it (configuration D), without batch norm: 13 convolutions with biases, then
// dense layers of 4,096, 4,096 and `classes`, with dropout before two of them. The first dense layer is as
// large as five pools leave the image.
torch::nn::Sequential build_vgg16_plain(ImageShape shape, std::int64_t classes);

// A causal transformer over bytes, norms before the layers (Radford et al. 2019).
torch::nn::Sequential build_gpt_byte(const config::ModelConfig& model, std::int64_t classes);

// make_model without the weights: they are whatever libtorch drew.
absl::StatusOr<torch::nn::Sequential> build_model(const config::ModelConfig& model,
                                                  const std::vector<std::int64_t>& sample_shape,
                                                  std::int64_t classes);

struct NamedTensor {
  std::string name;
  ps::TensorKind kind = ps::TensorKind::kParameter;
  torch::Tensor tensor;
};

// What layout_of lists, in its order. Other buffers (counters, masks) are no part of a model's weights.
std::vector<NamedTensor> layout_tensors(torch::nn::Sequential& model);

}  // namespace paceline::train

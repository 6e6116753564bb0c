#include <limits>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "paceline/computing/train/models.h"

namespace paceline::train {

namespace nn = torch::nn;

namespace {

nn::Conv2d convolution_3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

// Two convolutions beside an identity. If the block halves the image and adds channels, the identity takes
// every other pixel and pads the channels with zeros on both sides (option A: no weights).
struct ResidualBlock : nn::Module {
  ResidualBlock(std::int64_t in, std::int64_t out)
      : stride(in == out ? 1 : 2),
        padding((out - in) / 2),
        conv1(register_module("conv1", convolution_3x3(in, out, stride))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", convolution_3x3(out, out, 1))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor inner = bn1(conv1(x)).relu_();
    return (bn2(conv2(inner)) + shortcut(x)).relu_();
  }

  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (stride == 1) return x;
    constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
    const torch::Tensor every_other = x.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
    return torch::constant_pad_nd(every_other, {0, 0, 0, 0, padding, padding});
  }

  std::int64_t stride;
  std::int64_t padding;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
};

// CIFAR's residual networks (He et al. 2016, section 4.2) of 6 · `blocks` + 2 layers.
nn::Sequential build_resnet(std::int64_t channels, std::int64_t classes, int blocks) {
  nn::Sequential model;
  model->push_back("conv1", convolution_3x3(channels, 16, 1));
  model->push_back("bn1", nn::BatchNorm2d(16));
  model->push_back("relu1", nn::ReLU());
  std::int64_t width = 16;
  for (int stage = 1; stage <= 3; ++stage) {
    const std::int64_t out = std::int64_t{8} << stage;
    for (int block = 0; block < blocks; ++block) {
      model->push_back(fmt::format("stage{}_{}", stage, block), std::make_shared<ResidualBlock>(width, out));
      width = out;
    }
  }
  model->push_back("pool", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
  model->push_back("flatten", nn::Flatten());
  model->push_back("fc", nn::Linear(width, classes));
  return model;
}

}  // namespace

const Model Models::resnet20 = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_resnet(samples[0], classes, 3);
    }};
const Model Models::resnet50 = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_resnet(samples[0], classes, 8);
    }};
const Model Models::resnet56 = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_resnet(samples[0], classes, 9);
    }};
const Model Models::resnet110 = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_resnet(samples[0], classes, 18);
    }};

}  // namespace paceline::train

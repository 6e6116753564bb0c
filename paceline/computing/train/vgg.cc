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

// Batch norm takes the mean away, so the convolution needs no bias.
void push_convolution(nn::Sequential& model, const std::string& name, std::int64_t in, std::int64_t out) {
  model->push_back("conv" + name, nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)));
  model->push_back("bn" + name, nn::BatchNorm2d(out));
  model->push_back("relu" + name, nn::ReLU());
}

// CIFAR's form of VGG (Simonyan, Zisserman 2015) with batch norm: convolutions a stage, then one dense layer.
nn::Sequential build_vgg(std::int64_t channels, std::int64_t classes, const std::vector<int>& stages) {
  constexpr std::int64_t kWidths[] = {64, 128, 256, 512, 512};
  nn::Sequential model;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      push_convolution(model, fmt::format("{}_{}", stage + 1, i), channels, kWidths[stage]);
      channels = kWidths[stage];
    }
    // Rounding up keeps one pixel of a 28 x 28 image after five pools.
    model->push_back(fmt::format("pool{}", stage + 1),
                     nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2).ceil_mode(true)));
  }
  model->push_back("pool", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
  model->push_back("flatten", nn::Flatten());
  model->push_back("fc", nn::Linear(channels, classes));
  return model;
}

}  // namespace

const Model Models::vgg11 = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_vgg(samples[0], classes, {1, 1, 2, 2, 2});
    }};
const Model Models::vgg16 = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_vgg(samples[0], classes, {2, 2, 3, 3, 3});
    }};

}  // namespace paceline::train

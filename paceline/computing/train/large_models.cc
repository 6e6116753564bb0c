#include <algorithm>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/dropout.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

namespace nn = torch::nn;

namespace {

constexpr std::int64_t kHidden = 4096;

nn::MaxPool2d halving(std::int64_t kernel) { return nn::MaxPool2d(nn::MaxPool2dOptions(kernel).stride(2)); }

// Two hidden layers of 4,096, and the classes.
void push_dense(nn::Sequential& model, std::int64_t in, std::int64_t classes) {
  model->push_back("flatten", nn::Flatten());
  model->push_back("drop1", Dropout(0.5));
  model->push_back("fc1", nn::Linear(in, kHidden));
  model->push_back("relu_fc1", nn::ReLU());
  model->push_back("drop2", Dropout(0.5));
  model->push_back("fc2", nn::Linear(kHidden, kHidden));
  model->push_back("relu_fc2", nn::ReLU());
  model->push_back("fc3", nn::Linear(kHidden, classes));
}

constexpr std::int64_t kLeastAlexnetPixels = 63;

absl::Status check_alexnet(const config::ModelConfig& model, const SampleShape& samples) {
  PACELINE_RETURN_IF_ERROR(check_images(model, samples));
  const ImageShape shape = image_of(samples);
  if (std::min(shape.height, shape.width) >= kLeastAlexnetPixels) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"alexnet\" wants images of at least {} x {} pixels, but the data's are {} x {}; "
      "set model.name to alexnet-small, or data.source to npy:… or images:… with larger ones",
      kLeastAlexnetPixels, kLeastAlexnetPixels, shape.height, shape.width));
}

Samples imagenet_samples(const config::ModelConfig&) { return {{3, 224, 224}, 1000}; }

// AlexNet in one tower (Krizhevsky 2014), as libtorch's users know it: five convolutions and three dense
// layers, with dropout before two of them.
nn::Sequential build_alexnet(ImageShape shape, std::int64_t classes) {
  struct Layer {
    std::int64_t out, kernel, stride, padding;
    bool pooled;
  };
  constexpr Layer kLayers[] = {{64, 11, 4, 2, true},
                               {192, 5, 1, 2, true},
                               {384, 3, 1, 1, false},
                               {256, 3, 1, 1, false},
                               {256, 3, 1, 1, true}};
  constexpr std::int64_t kGrid = 6;
  nn::Sequential model;
  std::int64_t channels = shape.channels;
  int number = 0;
  for (const Layer& layer : kLayers) {
    ++number;
    model->push_back(fmt::format("conv{}", number),
                     nn::Conv2d(nn::Conv2dOptions(channels, layer.out, layer.kernel)
                                    .stride(layer.stride)
                                    .padding(layer.padding)));
    model->push_back(fmt::format("relu{}", number), nn::ReLU());
    if (layer.pooled) model->push_back(fmt::format("pool{}", number), halving(3));
    channels = layer.out;
  }
  model->push_back("pool", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(kGrid)));
  push_dense(model, channels * kGrid * kGrid, classes);
  return model;
}

// VGG-16 as its authors have it (configuration D), without batch norm: 13 convolutions with biases, then
// dense layers of 4,096, 4,096 and `classes`, with dropout before two of them. The first dense layer is as
// large as five pools leave the image.
nn::Sequential build_vgg16_plain(ImageShape shape, std::int64_t classes) {
  constexpr std::int64_t kWidths[] = {64, 128, 256, 512, 512};
  constexpr int kConvolutions[] = {2, 2, 3, 3, 3};
  nn::Sequential model;
  ImageShape now = shape;
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < kConvolutions[stage]; ++i) {
      const std::string name = fmt::format("{}_{}", stage + 1, i);
      model->push_back("conv" + name,
                       nn::Conv2d(nn::Conv2dOptions(now.channels, kWidths[stage], 3).padding(1)));
      model->push_back("relu" + name, nn::ReLU());
      now.channels = kWidths[stage];
    }
    // Rounding up keeps one pixel of a 28 x 28 image after five pools.
    model->push_back(fmt::format("pool{}", stage + 1),
                     nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2).ceil_mode(true)));
    now.height = (now.height + 1) / 2;
    now.width = (now.width + 1) / 2;
  }
  push_dense(model, now.size(), classes);
  return model;
}

}  // namespace

const Model Models::alexnet = {
    .check = check_alexnet,
    .build = [](const config::ModelConfig&, const SampleShape& samples,
                std::int64_t classes) { return build_alexnet(image_of(samples), classes); },
    .usual = imagenet_samples};
const Model Models::vgg16_plain = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_vgg16_plain(image_of(samples), classes);
    }};

}  // namespace paceline::train

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

namespace nn = torch::nn;

namespace {

nn::Conv2d same_size_convolution(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).padding(kernel / 2));
}

// Halves height and width, rounding up.
nn::MaxPool2d pool(std::int64_t kernel) {
  return nn::MaxPool2d(
      nn::MaxPool2dOptions(kernel).stride(2).padding((kernel - 1) / 2).ceil_mode(kernel == 2));
}

std::int64_t pooled(std::int64_t extent, int times) {
  for (int i = 0; i < times; ++i) extent = (extent + 1) / 2;
  return extent;
}

// The inputs of a dense layer after `pools` pools, if there are `channels` channels.
std::int64_t flat_size(ImageShape shape, std::int64_t channels, int pools) {
  return channels * pooled(shape.height, pools) * pooled(shape.width, pools);
}

absl::Status check_mlp(const config::ModelConfig& model, const SampleShape& samples) {
  PACELINE_RETURN_IF_ERROR(check_images(model, samples));
  return at_least_one("width", model.width);
}

// Two hidden layers of `width`.
nn::Sequential build_mlp(ImageShape shape, std::int64_t classes, std::int64_t width) {
  nn::Sequential model;
  model->push_back("flatten", nn::Flatten());
  model->push_back("fc1", nn::Linear(shape.size(), width));
  model->push_back("relu1", nn::ReLU());
  model->push_back("fc2", nn::Linear(width, width));
  model->push_back("relu2", nn::ReLU());
  model->push_back("fc3", nn::Linear(width, classes));
  return model;
}

// Two convolutions and two dense layers.
nn::Sequential build_cnn(ImageShape shape, std::int64_t classes) {
  nn::Sequential model;
  model->push_back("conv1", same_size_convolution(shape.channels, 32, 3));
  model->push_back("relu1", nn::ReLU());
  model->push_back("pool1", pool(2));
  model->push_back("conv2", same_size_convolution(32, 64, 3));
  model->push_back("relu2", nn::ReLU());
  model->push_back("pool2", pool(2));
  model->push_back("flatten", nn::Flatten());
  model->push_back("fc1", nn::Linear(flat_size(shape, 64, 2), 128));
  model->push_back("relu3", nn::ReLU());
  model->push_back("fc2", nn::Linear(128, classes));
  return model;
}

// The small AlexNet of the DSSP paper (Zhao et al. 2019): three convolutions, two dense layers. Most of its
// weights are in the first dense layer, so it sends much for what it computes.
nn::Sequential build_alexnet_small(ImageShape shape, std::int64_t classes) {
  nn::Sequential model;
  model->push_back("conv1", same_size_convolution(shape.channels, 64, 5));
  model->push_back("relu1", nn::ReLU());
  model->push_back("pool1", pool(3));
  model->push_back("conv2", same_size_convolution(64, 64, 5));
  model->push_back("relu2", nn::ReLU());
  model->push_back("pool2", pool(3));
  model->push_back("conv3", same_size_convolution(64, 128, 5));
  model->push_back("relu3", nn::ReLU());
  model->push_back("pool3", pool(3));
  model->push_back("flatten", nn::Flatten());
  model->push_back("fc1", nn::Linear(flat_size(shape, 128, 3), 512));
  model->push_back("relu4", nn::ReLU());
  model->push_back("fc2", nn::Linear(512, classes));
  return model;
}

}  // namespace

const Model Models::mlp = {
    .check = check_mlp,
    .build = [](const config::ModelConfig& model, const SampleShape& samples, std::int64_t classes) {
      return build_mlp(image_of(samples), classes, model.width);
    }};
const Model Models::cnn = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_cnn(image_of(samples), classes);
    }};
const Model Models::alexnet_small = {
    .build = [](const config::ModelConfig&, const SampleShape& samples, std::int64_t classes) {
      return build_alexnet_small(image_of(samples), classes);
    }};

}  // namespace paceline::train

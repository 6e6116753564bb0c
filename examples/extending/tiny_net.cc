// One convolution, and the mean over its outputs: a model of a few hundred weights. An example of a model:
// docs/extending.md.
#include <algorithm>

#include <fmt/format.h>
#include <torch/torch.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/models.h"

namespace example {

namespace nn = torch::nn;
namespace train = paceline::train;
using paceline::config::ModelConfig;

namespace {

constexpr std::int64_t kKernel = 5;

absl::Status check_tiny_net(const ModelConfig& model, const train::SampleShape& samples) {
  PACELINE_RETURN_IF_ERROR(train::check_images(model, samples));
  PACELINE_RETURN_IF_ERROR(train::at_least_one("width", model.width));
  const auto [channels, height, width] = train::image_of(samples);
  if (std::min(height, width) >= kKernel) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"tiny-net\" wants images of at least {} x {} pixels, but the data's are {} x {}",
      kKernel, kKernel, height, width));
}

nn::Sequential build_tiny_net(const ModelConfig& model, const train::SampleShape& samples,
                              std::int64_t classes) {
  nn::Sequential units;
  units->push_back("conv", nn::Conv2d(nn::Conv2dOptions(samples[0], model.width, kKernel)));
  units->push_back("relu", nn::ReLU());
  units->push_back("mean", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
  units->push_back("flatten", nn::Flatten());
  units->push_back("fc", nn::Linear(model.width, classes));
  return units;
}

}  // namespace

const train::Model kTinyNet = {.check = check_tiny_net, .build = build_tiny_net};

}  // namespace example

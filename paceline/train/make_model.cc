#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "paceline/base/status_macros.h"
#include "paceline/train/catch_torch.h"
#include "paceline/train/initial_weights.h"
#include "paceline/train/model.h"
#include "paceline/train/models.h"

namespace paceline::train {

namespace {

using config::ModelConfig;

absl::Status at_least_one(const char* key, std::int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("model.{} = {}: must be at least 1", key, value));
}

absl::Status check_gpt_byte(const ModelConfig& model, const std::vector<std::int64_t>& sample_shape) {
  for (const auto& [key, value] : {std::pair{"width", model.width}, std::pair{"layers", model.layers},
                                   std::pair{"heads", model.heads}, std::pair{"context", model.context}}) {
    PACELINE_RETURN_IF_ERROR(at_least_one(key, value));
  }
  if (model.width % model.heads != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "model.heads = {} does not divide model.width = {}; choose one that does", model.heads, model.width));
  }
  if (sample_shape.size() == 1 && sample_shape[0] == model.context) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"gpt-byte\" wants samples of model.context = {} bytes, but the data has samples of "
      "shape [{}]; set data.source to text:… or headers, or choose an image model",
      model.context, fmt::join(sample_shape, ", ")));
}

absl::StatusOr<ImageShape> image_shape(const ModelConfig& model,
                                       const std::vector<std::int64_t>& sample_shape) {
  if (sample_shape.size() == 3) return ImageShape{sample_shape[0], sample_shape[1], sample_shape[2]};
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"{}\" wants images, but the data has samples of shape [{}]; set data.source to "
      "cifar10:…, mnist:… or npy:…, or model.name to gpt-byte",
      model.name, fmt::join(sample_shape, ", ")));
}

absl::Status check_alexnet(ImageShape shape) {
  if (std::min(shape.height, shape.width) >= kLeastAlexnetPixels) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"alexnet\" wants images of at least {} x {} pixels, but the data's are {} x {}; "
      "set model.name to alexnet-small, or data.source to npy:… with larger ones",
      kLeastAlexnetPixels, kLeastAlexnetPixels, shape.height, shape.width));
}

absl::Status check_name(const std::string& name) {
  for (const char* known : {"mlp", "cnn", "alexnet-small", "alexnet", "resnet20", "resnet50", "resnet56",
                            "resnet110", "vgg11", "vgg16", "vgg16-plain", "gpt-byte"}) {
    if (name == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("model.name = \"{}\": no such model; there are mlp, cnn, alexnet-small, alexnet, "
                  "resnet20, resnet50, resnet56, resnet110, vgg11, vgg16, vgg16-plain and gpt-byte",
                  name));
}

}  // namespace

absl::StatusOr<torch::nn::Sequential> build_model(const ModelConfig& model,
                                                  const std::vector<std::int64_t>& sample_shape,
                                                  std::int64_t classes) {
  PACELINE_RETURN_IF_ERROR(check_name(model.name));
  if (model.name == "gpt-byte") {
    PACELINE_RETURN_IF_ERROR(check_gpt_byte(model, sample_shape));
    return build_gpt_byte(model, classes);
  }
  PACELINE_ASSIGN_OR_RETURN(const ImageShape shape, image_shape(model, sample_shape));
  if (model.name == "mlp") {
    PACELINE_RETURN_IF_ERROR(at_least_one("width", model.width));
    return build_mlp(shape, classes, model.width);
  }
  if (model.name == "cnn") return build_cnn(shape, classes);
  if (model.name == "alexnet-small") return build_alexnet_small(shape, classes);
  if (model.name == "resnet20") return build_resnet(shape.channels, classes, 3);
  if (model.name == "alexnet") {
    PACELINE_RETURN_IF_ERROR(check_alexnet(shape));
    return build_alexnet(shape, classes);
  }
  if (model.name == "resnet50") return build_resnet(shape.channels, classes, 8);
  if (model.name == "resnet56") return build_resnet(shape.channels, classes, 9);
  if (model.name == "resnet110") return build_resnet(shape.channels, classes, 18);
  if (model.name == "vgg11") return build_vgg(shape.channels, classes, {1, 1, 2, 2, 2});
  if (model.name == "vgg16") return build_vgg(shape.channels, classes, {2, 2, 3, 3, 3});
  if (model.name == "vgg16-plain") return build_vgg16_plain(shape, classes);
  return absl::InternalError(fmt::format("model.name = \"{}\" is known, and nothing builds it", model.name));
}

absl::StatusOr<torch::nn::Sequential> make_model(const ModelConfig& model,
                                                 const std::vector<std::int64_t>& sample_shape,
                                                 std::int64_t classes, std::uint64_t seed) {
  return catch_torch("building model " + model.name, [&]() -> absl::StatusOr<torch::nn::Sequential> {
    PACELINE_ASSIGN_OR_RETURN(torch::nn::Sequential units, build_model(model, sample_shape, classes));
    const ps::Layout layout = layout_of(units);
    std::vector<float> weights(static_cast<std::size_t>(layout.size()));
    draw_initial_weights(model, layout, seed, weights);
    const torch::NoGradGuard no_grad;
    const std::vector<NamedTensor> tensors = layout_tensors(units);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ps::TensorSpec& spec = layout.tensors()[i];
      tensors[i].tensor.copy_(torch::from_blob(weights.data() + spec.offset, spec.shape));
    }
    return units;
  });
}

}  // namespace paceline::train

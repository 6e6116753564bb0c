#include <string>

#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/container/sequential.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/catch_torch.h"
#include "paceline/computing/train/initial_weights.h"
#include "paceline/computing/train/model.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

using config::ModelConfig;

absl::Status at_least_one(const char* key, std::int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("model.{} = {}: must be at least 1", key, value));
}

absl::Status check_images(const ModelConfig& model, const SampleShape& samples) {
  if (samples.size() == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "model.name = \"{}\" wants images, but the data has samples of shape [{}]; set data.source to "
      "digits, cifar10:…, mnist:…, images:… or npy:…, or model.name to gpt-byte",
      model.name, fmt::join(samples, ", ")));
}

const Model* find_model(const std::string& name) {
  struct Line {
    const char* name;
    const Model* model;
  };
#define PACELINE_LINE_OF(identifier, text) {text, &Models::identifier},
  static constexpr Line kTable[] = {PACELINE_MODELS(PACELINE_LINE_OF)};
#undef PACELINE_LINE_OF
  for (const Line& line : kTable) {
    if (name == line.name) return line.model;
  }
  return nullptr;
}

absl::StatusOr<torch::nn::Sequential> build_model(const ModelConfig& model, const SampleShape& samples,
                                                  std::int64_t classes) {
  const Model* kind = find_model(model.name);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(fmt::format("model.name = \"{}\": no such model; there are {}",
                                                  model.name, absl::StrJoin(config::model_names(), ", ")));
  }
  PACELINE_RETURN_IF_ERROR(kind->check(model, samples));
  return kind->build(model, samples, classes);
}

namespace {

void set_weights(const Model& kind, const ModelConfig& model, std::uint64_t seed,
                 torch::nn::Sequential& units) {
  const ps::Layout layout = layout_of(units);
  std::vector<float> weights(static_cast<std::size_t>(layout.size()));
  draw_initial_weights(kind, model, layout, seed, weights);
  const torch::NoGradGuard no_grad;
  const std::vector<NamedTensor> tensors = layout_tensors(units);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ps::TensorSpec& spec = layout.tensors()[i];
    tensors[i].tensor.copy_(torch::from_blob(weights.data() + spec.offset, spec.shape));
  }
}

}  // namespace

absl::StatusOr<torch::nn::Sequential> make_model(const Model& kind, const ModelConfig& model,
                                                 const SampleShape& samples, std::int64_t classes,
                                                 std::uint64_t seed) {
  return catch_torch("building model " + model.name, [&]() -> absl::StatusOr<torch::nn::Sequential> {
    PACELINE_RETURN_IF_ERROR(kind.check(model, samples));
    torch::nn::Sequential units = kind.build(model, samples, classes);
    set_weights(kind, model, seed, units);
    return units;
  });
}

absl::StatusOr<torch::nn::Sequential> make_model(const ModelConfig& model, const SampleShape& samples,
                                                 std::int64_t classes, std::uint64_t seed) {
  const Model* kind = find_model(model.name);
  if (kind == nullptr) return build_model(model, samples, classes);  // the error lists the models
  return make_model(*kind, model, samples, classes, seed);
}

}  // namespace paceline::train

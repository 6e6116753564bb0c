#include "paceline/computing/train/initial_weights.h"

#include <algorithm>
#include <cmath>

#include "paceline/base/check.h"
#include "paceline/base/rng.h"

namespace paceline::train {

void draw_normal(double deviation, Rng& rng, std::span<float> out) {
  for (float& value : out) value = static_cast<float>(deviation * rng.normal());
}

namespace {

void draw_uniform(double bound, Rng& rng, std::span<float> out) {
  for (float& value : out) value = static_cast<float>(bound * (2.0 * rng.uniform() - 1.0));
}

// Biases, and all that norms have.
void set_vector(const ps::TensorSpec& tensor, std::span<float> out) {
  const bool one = tensor.name.ends_with(".weight") || tensor.name.ends_with(".running_var");
  std::fill(out.begin(), out.end(), one ? 1.0f : 0.0f);
}

}  // namespace

void draw_image_tensor(const config::ModelConfig&, const ps::TensorSpec& tensor, Rng& rng,
                       std::span<float> out) {
  if (tensor.shape.size() == 2) {
    draw_uniform(1.0 / std::sqrt(static_cast<double>(tensor.shape[1])), rng, out);
  } else {
    draw_normal(std::sqrt(2.0 / static_cast<double>(tensor.size / tensor.shape[1])), rng, out);
  }
}

void draw_initial_weights(const Model& kind, const config::ModelConfig& model, const ps::Layout& layout,
                          std::uint64_t seed, std::span<float> out) {
  PACELINE_CHECK(static_cast<std::int64_t>(out.size()) == layout.size(), "{} floats for a layout of {}",
                 out.size(), layout.size());
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const ps::TensorSpec& tensor = layout.tensors()[i];
    const auto place =
        out.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size));
    Rng rng(mix_seed({seed, i}));
    if (tensor.shape.size() == 1) {
      set_vector(tensor, place);
    } else {
      kind.draw(model, tensor, rng, place);
    }
  }
}

}  // namespace paceline::train

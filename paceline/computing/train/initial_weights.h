// The weights for a seed, as a function of the layout. They depend neither on libtorch nor on a generator of
// the process, so every machine draws the same weights, and threads do not disturb each other.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/computing/train/models.h"
#include "paceline/formats/config/model_config.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::train {

// Writes layout.size() floats; padding is zero. Each tensor has a stream of its own, named by its place. The
// model draws tensors of two dimensions or more (Model::draw). Norms start as the identity, biases at zero.
void draw_initial_weights(const Model& kind, const config::ModelConfig& model, const ps::Layout& layout,
                          std::uint64_t seed, std::span<float> out);

}  // namespace paceline::train

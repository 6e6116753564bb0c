// The weights a seed gives, as a function of the layout: no libtorch and no generator of the process is
// asked, so every machine draws the same, whatever its libtorch, and threads do not disturb each other.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/config/model_config.h"
#include "paceline/ps/layout.h"

namespace paceline::train {

// Writes layout.size() floats; padding is zero. Each tensor has a stream of its own, named by its place.
// Image models: convolutions He normal by fan-out (He et al. 2015), dense layers uniform in ±1/√fan-in.
// gpt-byte: normal 0.02, by 1/√(2·layers) less where a layer adds to the residual stream (Radford et al.
// 2019). Norms start as the identity, biases at zero.
void draw_initial_weights(const config::ModelConfig& model, const ps::Layout& layout, std::uint64_t seed,
                          std::span<float> out);

}  // namespace paceline::train

// The numbers of gradients and weights in the made-up cluster. Servers step them with the real shard, in floats. The
// judge makes the same steps with two numbers in double precision. Every gradient has a size of its own, and momentum
// makes the order count, so weights and velocity tell which commits a version consists of. Element e of all numbers has
// a scale of its own too, so a part that is taken for another one is noticed. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/shard.h"

namespace paceline::cluster_sim {

// The model that workers train: a few tensors.
const ps::Layout& model();

// A version's weights and the velocity of SGD, of an element whose scale is 1.
struct Content {
  double weight = 1;
  double velocity = 0;
};
// The content of the version that a commit of that attempt makes of the content before it. `momentum`: the job's.
Content after_commit(Content before, const std::string& attempt, const wire::Apply& commit, double momentum);

// Writes the first weights of the whole model.
void write_first(std::span<float> weights);
// Writes the gradient of one iteration in that attempt.
void write_gradient(const std::string& attempt, std::int32_t replica, std::int64_t clock,
                    std::span<float> gradient);

// A part of the model, with the numbers of one version.
struct PartNumbers {
  std::int64_t offset = 0;  // offset of the part in the model, in floats
  std::vector<float> weights{};
  ps::OptimizerState state{};
};
// Whether a part from `offset` on has these weights, as exactly as floats can.
bool has_weights(Content content, std::int64_t offset, std::span<const float> weights);
// The same of the velocity.
bool has_velocity(Content content, std::int64_t offset, std::span<const float> velocity);

}  // namespace paceline::cluster_sim

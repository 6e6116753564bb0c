// The planner's knowledge of a model: one entry for each unit after which a pipeline may be cut. Plain
// values; measured or computed elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::planner {

struct LayerProfile {
  std::string name;
  double work_ms = 0;                 // forward and backward of one sample on a device of speed 1 (w_l)
  double forward_share = 1.0 / 3;     // share of work_ms, and of fixed_ms
  std::int64_t output_bytes = 0;      // one sample's activation, sent on if a cut follows (y_l)
  std::int64_t activation_bytes = 0;  // one sample's memory, kept from forward to backward
  std::int64_t parameter_bytes = 0;   // weights
  double fixed_ms = 0;                // added to each micro-batch on a device of speed 1, whatever its size
  std::int64_t frozen_bytes = 0;      // the part of them that nobody trains: it has no gradient
  std::int64_t state_bytes = 0;       // the optimizer's state for them, which the servers hold
  // Weights that an earlier layer has too. A stage with both layers has them once.
  std::int64_t tied_bytes = 0;
  std::int32_t tied_to = 0;  // the number of that layer
  // Gradients of tied weights, which come back with each micro-batch's gradient if a cut follows.
  std::int64_t returned_bytes = 0;
  // Memory that comes and goes while one micro-batch of u samples is computed: fixed + u · the one for a sample.
  std::int64_t working_bytes = 0, working_fixed_bytes = 0;
};

struct ModelProfile {
  std::vector<LayerProfile> layers;
};

}  // namespace paceline::planner

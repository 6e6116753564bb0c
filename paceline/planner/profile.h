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
  double forward_share = 1.0 / 3;     // share of work_ms
  std::int64_t output_bytes = 0;      // one sample's activation, sent on if a cut follows (y_l)
  std::int64_t activation_bytes = 0;  // one sample's memory, kept from forward to backward
  std::int64_t parameter_bytes = 0;   // weights
};

struct ModelProfile {
  std::vector<LayerProfile> layers;
};

}  // namespace paceline::planner

// The layers of a model, as cluster.toml and files of profiles write them. For this folder only.
#pragma once

#include "paceline/decisions/planner/profile.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

inline constexpr std::size_t kMostLayers = 1000;

// The keys of a [[layer]] except work_ms. They may also be in [model], as defaults of all layers.
void read_layer_sizes(Section& section, planner::LayerProfile& layer);
// The keys of a model that are beside its [[layer]].
void read_model_times(Section& top, planner::ModelProfile& model);
// All [[layer]] of a table; sizes that are missing are as in `otherwise`.
void read_layers(Section& top, const planner::LayerProfile& otherwise, Complaints& complaints,
                 planner::ModelProfile& model);

}  // namespace paceline::config

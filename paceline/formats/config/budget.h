// A budget, as cluster.toml and job.toml write it: `most` per batch, second or hour, of one kind of cost.
#pragma once

#include "paceline/decisions/planner/costs.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

// Reads the keys kind, most and per of a section; complains if `most` is missing. Megabytes become bytes.
planner::Budget read_budget(Section& section);

// The key price_per_hour, in any currency.
double read_price(Section& section);
// The key power_w: while it computes.
double read_power(Section& section);

}  // namespace paceline::config

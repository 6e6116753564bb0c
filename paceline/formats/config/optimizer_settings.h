// Settings of [optimizer] and of its groups that some optimizers do not have: a step that does not read one would ignore it
// without a word. Pure.
#pragma once

#include <toml++/toml.h>

#include "paceline/formats/config/section.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::config {

// Complains about a setting that the optimizer does not have. `section`: [optimizer], or one of its groups.
void refuse_settings_of_others(Section& section, ps::OptimizerKind kind);

// Takes such settings out of a recorded job, in which they meant nothing. Returns whether there were any.
bool take_out_settings_of_others(toml::table& job);

}  // namespace paceline::config

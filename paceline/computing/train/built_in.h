// The models of this folder, as programs without libtorch know of them.
#pragma once

#include "paceline/computing/engine/built_in.h"

namespace paceline::train {

const engine::BuiltIn& built_in_models();

}  // namespace paceline::train
